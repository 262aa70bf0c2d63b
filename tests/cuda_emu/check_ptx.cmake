# check_ptx.cmake - what nvcc makes of the kernels: no fused multiply-add, no approximate or flushing arithmetic, and
# correctly rounded division where there is one. Only text is looked at; no device is needed.
#   cmake -DNVCC=... -DFLAGS=... -DSOURCES=... -DROOT=... -DOUT=... -P check_ptx.cmake
foreach(source ${SOURCES})
  get_filename_component(name ${source} NAME_WE)
  execute_process(COMMAND ${NVCC} -std=c++17 -arch=compute_80 -ptx ${FLAGS} -I${ROOT} -I${ROOT}/include ${source}
    -o ${OUT}/${name}.ptx RESULT_VARIABLE failed ERROR_VARIABLE message)
  if(failed)
    message(FATAL_ERROR "${name}: nvcc failed: ${message}")
  endif()
  file(STRINGS ${OUT}/${name}.ptx bad REGEX "fma|\\.approx|\\.full\\.|\\.ftz|mad\\.(rn|f32|f64)|(add|mul|sub|div)\\.f(32|64)")
  if(bad)
    message(FATAL_ERROR "${name}: not exact: ${bad}")
  endif()
  file(STRINGS ${OUT}/${name}.ptx division REGEX "div\\.rn\\.f32")
  file(STRINGS ${OUT}/${name}.ptx sums REGEX "add\\.rn\\.f64")
  list(LENGTH division n_division)
  list(LENGTH sums n_sums)
  message(STATUS "${name}: ${n_division} div.rn.f32, ${n_sums} add.rn.f64, no fused operation")
  if(name STREQUAL "cuda_int8" AND (n_division EQUAL 0 OR n_sums EQUAL 0))
    message(FATAL_ERROR "${name}: expected div.rn.f32 and add.rn.f64")
  endif()
endforeach()
