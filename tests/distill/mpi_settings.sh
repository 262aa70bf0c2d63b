# mpi_settings.sh - read by the tests that mpirun starts ranks in: what Open MPI has to be told, as root and with more ranks
# than cores, without ssh and the right to read the memory of another process; variables of launchers around the test are
# left out. mpi_starts MPIEXEC: false, with a line that says why, where it starts nothing here; its session files are below the
# current folder, where no other mpirun of this machine removes them.
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1
PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
OMPI_MCA_plm=isolated
OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
export PRTE_MCA_rmaps_default_mapping_policy OMPI_MCA_plm OMPI_MCA_btl_vader_single_copy_mechanism
unset OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS WORLD_SIZE

mpi_starts() {
    mkdir -p sessions
    TMPDIR=$PWD/sessions
    export TMPDIR
    said=$(timeout 60 "$1" -n 2 true 2>&1) || {
        echo "skipped: $1 starts nothing: $(printf '%s\n' "$said" | head -n 3 | tr '\n' ' ')"
        return 1
    }
}

# Writes others.sh OPTIONS COMMAND...: runs it, on all ranks but 0 with these options behind its own. (mpirun of Open MPI 5
# takes no two commands with a colon between them: it crashes.)
others_write() {
    cat >others.sh <<'END'
options=$1
shift
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && options=
exec "$@" $options
END
}
