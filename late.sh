[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && sleep 1.5
exec "$@"
