# The program in an image of its own: docker build -t vcompress . && docker run --rm -v "$PWD:/models" -u "$(id -u)" vcompress inspect model.npz
FROM debian:12-slim AS build
COPY . /src
WORKDIR /src
RUN sh -c '. scripts/debian_packages.sh && need_packages gcc libc6-dev make cmake zlib1g-dev libjansson-dev libdeflate-dev nettle-dev'
RUN cmake -S . -B build/container -DVCOMPRESS_STATIC_DEPENDENCIES=ON -DVCOMPRESS_ISAL=OFF -DVCOMPRESS_CUDA=OFF -DVCOMPRESS_MPI=OFF -DVCOMPRESS_HTTP=OFF -DVCOMPRESS_TESTS=OFF
RUN cmake --build build/container -j "$(nproc)" --target vcompress_program
RUN strip build/container/vcompress

FROM debian:12-slim
COPY --from=build /src/build/container/vcompress /usr/local/bin/vcompress
USER 65534:65534
WORKDIR /models
ENTRYPOINT ["vcompress"]
