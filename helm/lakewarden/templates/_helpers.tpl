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

{{- define "lakewarden.labels" -}}
{{ include "lakewarden.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "lakewarden.serviceAccountName" -}}
{{- $made := ternary (include "lakewarden.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $made .Values.serviceAccount.name -}}
{{- end -}}

{{/* What the daemon reads: the values' config, and over it what the chart itself must set. */}}
{{- define "lakewarden.config" -}}
{{- $url := printf "http://%s.%s.svc:8080" (include "lakewarden.fullname" .) .Release.Namespace -}}
{{- $ours := dict
  "daemon" (dict "data_dir" "/var/lib/lakewarden" "drain" (printf "%ds" (int .Values.drainSeconds)))
  "api" (dict "host" "0.0.0.0" "port" 8080)
  "management" (dict "host" "0.0.0.0" "port" 8081)
-}}
{{- $config := mergeOverwrite (dict "api" (dict "public_url" $url)) (deepCopy .Values.config) $ours -}}
{{- toYaml $config -}}
{{- end -}}
