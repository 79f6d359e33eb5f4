#!/bin/sh
# Builds the image with buildah from a folder that was gathered, and runs the demo in it as the image's own user: a live
# writer, its table compacted and cleaned, every row proved. What was written elsewhere than to the named folders fails it.
#
#   build.sh FOLDER [--base IMAGE | --debian]
#
# --debian makes the base of Debian's own packages (mmdebstrap), where no registry of images answers.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
gathered=$1
shift
tag=localhost/lakewarden:$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$root/lakewarden/__init__.py")
base=
case "${1:-}" in
    --base) base=$2 ;;
    --debian) base=localhost/lakewarden-base ;;
esac
export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}" # works within containers, too
say() { echo "image: $*" >&2; }

work=$(mktemp -d)
container=
clean_up() {
    [ -z "$container" ] || buildah rm "$container" >/dev/null
    rm -rf "$work"
}
trap clean_up EXIT

if [ "${1:-}" = --debian ]; then
    say "making a base of Debian's packages"
    mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$work/base.tar"
    printf 'FROM scratch\nADD base.tar /\n' >"$work/Dockerfile"
    buildah bud --quiet --tag "$base" "$work" >/dev/null
fi
say "building $tag"
buildah bud --quiet --file "$root/Dockerfile" ${base:+--build-arg "BASE=$base"} --tag "$tag" "$gathered" >/dev/null

say "running the demo in it"
container=$(buildah from --pull=never "$tag")
mounted=$(buildah mount "$container")
touch "$work/before"
# A container of buildah's has no line for its own name in /etc/hosts, as a pod has: Spark would look for it.
buildah run --env SPARK_LOCAL_HOSTNAME=localhost "$container" -- sh -c 'id && lakewarden demo --seconds 20'
written=$(find "$mounted" -newer "$work/before" -type f ! -path "$mounted/tmp/*" ! -path "$mounted/var/lib/lakewarden/*")
if [ -n "$written" ]; then
    say "it wrote where the root file system of a pod is read-only: $written"
    exit 1
fi
say "$tag is built and has kept a table healthy"
