# A few commands, for the test of compare.sh itself.
# shellcheck shell=sh disable=SC2154
there_and_back "$in/hard-f32.npz" npz --int8
one quantize --int8 "$in/plain.npz" -o o.npz --json
one quantize --int8 "$in/plain.npz" -o o.npz
one verify --data "$in/damaged/cut5-seed.npz"
one quantize --int8 "$in/damaged/cut5-seed.npz" -o o.npz
