{{/* What the pods of the chart have in common: the daemon, the check of the configuration, and `helm test`. */}}

{{- define "lakewarden.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end -}}
{{- end -}}

{{- define "lakewarden.placement" -}}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "hostAliases" "dnsConfig" }}
{{- with get $.Values $field }}
{{ toYaml (dict $field .) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Not empty if the pod may run as another user than the image's. */}}
{{- define "lakewarden.otherUser" -}}
{{- if ne (int .Values.podSecurityContext.runAsUser) 185 -}}true{{- end -}}
{{- end -}}

{{/* The environment: what is said, Secrets by reference, and whatever else Kubernetes can put there. */}}
{{- define "lakewarden.environment" -}}
{{- if or .Values.env .Values.secrets.env .Values.extraEnv }}
env:
  {{- range $name, $value := .Values.env }}
  - name: {{ $name | quote }}
    value: {{ $value | quote }}
  {{- end }}
  {{- range $name, $at := .Values.secrets.env }}
  - name: {{ $name | quote }}
    valueFrom:
      secretKeyRef: {name: {{ $at.secret | quote }}, key: {{ $at.key | quote }}}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .Values.secrets.envFrom }}
envFrom:
  {{- range . }}
  - secretRef: {name: {{ . | quote }}}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "lakewarden.secretVolume" -}}
{{- with .Values.secrets.files }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $name, $at := . }}
      - secret:
          name: {{ $at.secret | quote }}
          items: [{key: {{ $at.key | quote }}, path: {{ $name | quote }}}]
      {{- end }}
{{- end }}
{{- end -}}

{{- define "lakewarden.secretMount" -}}
{{- if .Values.secrets.files }}
- {name: secrets, mountPath: /run/secrets/lakewarden, readOnly: true}
{{- end }}
{{- end -}}
