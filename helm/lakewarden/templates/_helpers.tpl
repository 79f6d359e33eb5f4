{{- define "lakewarden.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 52 characters: a StatefulSet's pods bear its name and more in a label of 63. */}}
{{- define "lakewarden.fullname" -}}
{{- $name := include "lakewarden.name" . -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $both .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "lakewarden.selectorLabels" -}}
app.kubernetes.io/name: {{ include "lakewarden.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of an object: (list $ LABELS) with labels of its own. Those count before commonLabels, and the chart's before both. */}}
{{- define "lakewarden.labels" -}}
{{- $root := index . 0 -}}
{{- $chart := printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" -}}
{{- $fixed := dict "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" $chart -}}
{{- toYaml (mergeOverwrite (dict) $root.Values.commonLabels (index . 1) $fixed (include "lakewarden.selectorLabels" $root | fromYaml)) -}}
{{- end -}}

{{/* The labels of a pod that no Service and no policy of the daemon selects: (list $ NAME LABELS). */}}
{{- define "lakewarden.otherLabels" -}}
{{- $root := index . 0 -}}
{{- toYaml (mergeOverwrite (dict) $root.Values.commonLabels (index . 2) (dict "app.kubernetes.io/name" (index . 1) "app.kubernetes.io/instance" $root.Release.Name)) -}}
{{- end -}}

{{- define "lakewarden.serviceAccountName" -}}
{{- $made := ternary (include "lakewarden.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $made .Values.serviceAccount.name -}}
{{- end -}}

{{/* Not empty if the configuration is a file that the chart does not write. */}}
{{- define "lakewarden.foreignConfig" -}}
{{- if or .Values.configFrom.configMap .Values.configFrom.sidecar -}}true{{- end -}}
{{- end -}}

{{/* Not empty if several daemons may share the store. */}}
{{- define "lakewarden.shared" -}}
{{- if or (dig "database" "url" "" .Values.config) .Values.configFrom.sharedStore -}}true{{- end -}}
{{- end -}}

{{/* What the daemon reads: the values' config, and over it what the chart itself must set. */}}
{{- define "lakewarden.config" -}}
{{- $name := include "lakewarden.fullname" . -}}
{{- $scheme := ternary "https" "http" (not (not (dig "api" "tls" "" .Values.config))) -}}
{{- $listen := dict "host" .Values.listenOn "port" 8080 -}}
{{- $api := dict "public_url" (printf "%s://%s.%s.svc:8080" $scheme $name .Release.Namespace) -}}
{{- if include "lakewarden.shared" . -}}
{{- $_ := set $api "peer_url" (printf "%s://{hostname}.%s-management.%s.svc:8080" $scheme $name .Release.Namespace) -}}
{{- end -}}
{{- /* Pages are refused under a name that the daemon does not know. */ -}}
{{- $hosts := dig "api" "allowed_hosts" list .Values.config -}}
{{- if .Values.ingress.enabled -}}{{- range .Values.ingress.hosts -}}{{- $hosts = append $hosts .host -}}{{- end -}}{{- end -}}
{{- if .Values.httpRoute.enabled -}}{{- $hosts = concat $hosts .Values.httpRoute.hostnames -}}{{- end -}}
{{- if $hosts -}}{{- $_ := set $listen "allowed_hosts" (uniq $hosts) -}}{{- end -}}
{{- $ours := dict
  "daemon" (dict "data_dir" "/var/lib/lakewarden" "drain" (printf "%ds" (int .Values.drainSeconds)))
  "access" (dict "authentication" "keys")
  "api" $listen
  "management" (dict "host" .Values.listenOn "port" 8081)
-}}
{{- $watch := ternary "0s" "30s" .Values.restartOnChange -}}
{{- $config := mergeOverwrite (dict "api" $api "daemon" (dict "watch_configuration" $watch)) (deepCopy .Values.config) $ours -}}
{{- toYaml $config -}}
{{- end -}}

{{/* MiB of a quantity of Kubernetes: 3Gi, 512M, 1073741824. */}}
{{- define "lakewarden.mebibytes" -}}
{{- $said := toString . -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $said "" -}}
{{- $bytes := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "m" 0.001 -}}
{{- divf (mulf (float64 (regexFind "^[0-9.]+" $said)) (get $bytes $unit)) 1048576 | floor | int -}}
{{- end -}}

{{/* MiB that the daemon and all workers of the profiles need: 300, and for each worker its heap and 500. */}}
{{- define "lakewarden.neededMebibytes" -}}
{{- $needed := 300 -}}
{{- range $name, $profile := default (dict "default" dict) .Values.config.spark -}}
{{- $profile = default dict $profile -}}
{{- $heap := toString (default "1g" $profile.memory) -}}
{{- $each := int (regexFind "^[0-9]+" $heap) -}}
{{- if hasSuffix "g" $heap -}}{{- $each = mul $each 1024 -}}{{- end -}}
{{- $needed = add $needed (mul (int (default 1 $profile.workers)) (add $each 500)) -}}
{{- end -}}
{{- $needed -}}
{{- end -}}

{{/* Not empty if a kind of the Prometheus operator is asked for, and the cluster is not known to have it. */}}
{{- define "lakewarden.noOperator" -}}
{{- if and (or .Values.serviceMonitor.enabled .Values.podMonitor.enabled .Values.prometheusRule.enabled) (not (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
this cluster is not known to have monitoring.coreos.com/v1. An installation fails without the Prometheus operator. `helm template` asks no cluster: --api-versions monitoring.coreos.com/v1 tells it.
{{- end -}}
{{- end -}}

{{/* The version of the operator's kinds, below a warning where they may not be there. */}}
{{- define "lakewarden.operatorApi" -}}
{{- with include "lakewarden.noOperator" . -}}
# WARNING: {{ . }}
{{ end -}}
apiVersion: monitoring.coreos.com/v1
{{- end -}}
