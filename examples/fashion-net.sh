# fashion-net.sh - what fashion-recovery.sh and fashion-codes.sh share; they read it with their arguments, VCOMPRESS, FOLDER and
# SEEDS: the network, the images and labels of Fashion-MNIST, options that name them ($graph), a folder for files ($dir), and
# `accuracy FILE`, which prints the percentage of the 10,000 test images that the network of the file gets right.
vcompress=${1:-build/vcompress}
data=${2:-/usr/share/datasets/fashion-mnist}
seeds=${3:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/cnn.layers.txt" <<'EOF'
input x [batch, 1, 28, 28]
conv conv1 16 kernel=3 pad=1
relu
maxpool kernel=2
conv conv2 32 kernel=3 pad=1
relu
maxpool kernel=2
flatten
linear fc1 128
relu
linear fc2 10
EOF
images=$data/train-images-idx3-ubyte.gz
labels=$data/train-labels-idx1-ubyte.gz
[ -r "$images" ] || { echo "$images: cannot be read; Debian's package dataset-fashion-mnist has it" >&2; exit 1; }
graph="--graph $dir/cnn.layers.txt --scale 0.00392156862745098"

accuracy() {
    # shellcheck disable=SC2086
    "$vcompress" evaluate $graph --data "$data/t10k-images-idx3-ubyte.gz" --labels "$data/t10k-labels-idx1-ubyte.gz" "$1" |
        sed -nE 's/.*\(([0-9,]+) of ([0-9,]+)\).*/\1 \2/p' | tr -d , | awk '{ printf "%.2f\n", 100 * $1 / $2 }'
}
