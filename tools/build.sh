#!/bin/sh
# Builds the Go tools of `./dev chart`, once for each state of their go.sum, and prints the folders that they are in,
# as the PATH wants them: `charts` (Helm, its unit tests, kubeconform), `servers` (Kubernetes' own), `alerts` (promtool).
set -eu
cd "$(dirname "$0")"
cache=${LAKEWARDEN_CACHE:-$HOME/.cache/lakewarden}/tools

version() { go list -m -f '{{.Version}}' "$1"; }

# build FOLDER PACKAGE [LDFLAGS]: a binary gets its name only when it is whole.
build() {
    name=$(basename "$2")
    [ ! -x "$1/$name" ] || return 0
    echo "building $name, once, into $1" >&2
    mkdir -p "$1"
    go build -trimpath -ldflags "-s -w ${3:-}" -o "$1/.$name" "$2"
    mv "$1/.$name" "$1/$name"
}

# Without them helm takes every cluster for Kubernetes 1.20, and the API server cannot say which one it is.
helm_flags() {
    of=helm.sh/helm/v3
    flags="-X $of/internal/version.version=$(version $of)"
    for part in pkg/chartutil pkg/lint/rules; do
        flags="$flags -X $of/$part.k8sVersionMajor=1 -X $of/$part.k8sVersionMinor=$minor"
    done
    echo "$flags"
}
kube_flags() {
    of=k8s.io/component-base/version
    echo "-X $of.gitVersion=$kubernetes -X $of.gitMajor=1 -X $of.gitMinor=$minor -X $of.gitTreeState=clean"
}

folder() { echo "$cache/$(cat go.mod go.sum | sha256sum | cut -c1-16)"; }

kubernetes=$(cd kube && version k8s.io/kubernetes)
minor=${kubernetes#v1.}
minor=${minor%%.*}
folders=
for set in "$@"; do
    case $set in
        charts)
            built=$(folder)
            build "$built" helm.sh/helm/v3/cmd/helm "$(helm_flags)"
            build "$built" github.com/helm-unittest/helm-unittest/cmd/helm-unittest
            build "$built" github.com/yannh/kubeconform/cmd/kubeconform
            ;;
        servers)
            cd kube
            built=$(folder)
            for server in kube-apiserver kube-controller-manager kube-scheduler; do
                build "$built" k8s.io/kubernetes/cmd/$server "$(kube_flags)"
            done
            cd ..
            ;;
        alerts)
            cd prometheus
            built=$(folder)
            GOFLAGS="${GOFLAGS:-} -tags=remove_all_sd" # without clients of clouds
            export GOFLAGS
            build "$built" github.com/prometheus/prometheus/cmd/promtool
            cd ..
            ;;
        *)
            echo "tools/build.sh: there is no set $set: charts, servers, alerts" >&2
            exit 2
            ;;
    esac
    folders="$folders${folders:+:}$built"
done
echo "$folders"
