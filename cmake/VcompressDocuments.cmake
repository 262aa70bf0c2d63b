# cmake -DFOLDER=FOLDER -P VcompressDocuments.cmake: documents that were installed into FOLDER link to nothing that was left
# behind, such as a README of the sources: the words of such a link stay.
file(GLOB_RECURSE documents ${FOLDER}/*.md)
foreach(document ${documents})
  file(READ ${document} text)
  get_filename_component(place ${document} DIRECTORY)
  # "](" would not be an element of its own in a list of CMake
  string(REPLACE "](" "@(" marked "${text}")
  string(REGEX MATCHALL "@\\([^][()# ;]+" links "${marked}")
  list(REMOVE_DUPLICATES links)
  foreach(link ${links})
    string(SUBSTRING ${link} 2 -1 target)
    if(NOT target MATCHES "^(https?|mailto):" AND NOT EXISTS ${place}/${target})
      string(REGEX REPLACE "([.+*?^$()])" "\\\\\\1" pattern "${target}")
      string(REGEX REPLACE "\\[([^]]*)\\]\\(${pattern}(#[^)]*)?\\)" "\\1" text "${text}")
    endif()
  endforeach()
  file(WRITE ${document} "${text}")
endforeach()
