# Filled by the packaging part: install rules, find_package(vcompress), pkg-config.
