# Builds xdelay and ships the binary alone:
#   docker build -t xdelay . && docker run --rm xdelay --help
FROM rust:1-slim-bookworm AS builder
# gcc and cmake build the TLS library's C code, the rest is for librdkafka's.
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc g++ libc6-dev cmake make perl pkg-config \
      zlib1g-dev libssl-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libssl3 zlib1g \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --user-group --no-create-home xdelay
COPY --from=builder /src/target/release/xdelay /usr/local/bin/xdelay
USER 10001:10001
EXPOSE 7380
ENTRYPOINT ["xdelay"]
CMD ["run"]
