{{/* Prefix of all names: the release. */}}
{{- define "cofferdam.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Labels of an object. The argument is a dict of `root` and `part`. */}}
{{- define "cofferdam.labels" -}}
app.kubernetes.io/name: cofferdam
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "cofferdam.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* What every pod of ours has: no token, no rights, no variables of services. The argument is as above. */}}
{{- define "cofferdam.pod" -}}
# Variables of services begin with the release's name. COFFERDAM_API_PORT would be an unknown setting.
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* Where a pod runs: `nodeSelector`, `tolerations` and `runtimeClassName` of one part of the values. */}}
{{- define "cofferdam.placement" -}}
{{- with .runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "cofferdam.container" -}}
image: {{ include "cofferdam.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{/*
A key of the Secret as a variable. The argument is a list of root, key, whether it may be missing, and the
variable if it has another name.
*/}}
{{- define "cofferdam.secretVariable" -}}
{{- $root := index . 0 }}{{ $key := index . 1 -}}
- name: {{ len . | eq 4 | ternary (last .) $key }}
  valueFrom:
    secretKeyRef: { name: {{ $root.Values.secret.name }}, key: {{ $key }}, optional: {{ index . 2 }} }
{{- end }}

{{/* REDIS_URL of the cell of a number. The argument is a list of root and number. */}}
{{- define "cofferdam.redisVariable" -}}
{{- $key := index . 1 | int | eq 0 | ternary "REDIS_URL" (printf "REDIS_URL_%d" (index . 1 | int)) -}}
{{ include "cofferdam.secretVariable" (list (index . 0) $key false "REDIS_URL") }}
{{- end }}

{{/* The Redis of the caps, if it is one of its own. */}}
{{- define "cofferdam.admissionVariable" -}}
{{- if .Values.admissionRedis.enabled -}}
{{ include "cofferdam.secretVariable" (list . "COFFERDAM_ADMISSION_REDIS_URL" false) }}
{{- end }}
{{- end }}

{{/*
Variables of a process that serves metrics. The argument is a dict of `root`, `own` (variables of the chart)
and `env` (those of the user). A later one replaces an earlier one of its name.
*/}}
{{- define "cofferdam.variables" -}}
{{- $values := .root.Values }}
{{- $common := dict "COFFERDAM_METRICS_HOST" "0.0.0.0" "COFFERDAM_METRICS_PORT" "9464" "COFFERDAM_LOG_LEVEL" $values.logLevel }}
{{- with $values.otlpEndpoint }}
{{- $_ := set $common "OTEL_EXPORTER_OTLP_ENDPOINT" . }}
{{- end }}
{{- range $name, $value := merge (dict) .env $values.extraEnv .own $common }}
- { name: {{ $name }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- end }}

{{- define "cofferdam.storage" -}}
{{- if .Values.persistence.enabled }}
- name: data
  persistentVolumeClaim:
    claimName: {{ .Values.persistence.existingClaim | default (printf "%s-data" (include "cofferdam.name" .)) }}
{{- else }}
- { name: data, emptyDir: { sizeLimit: 2Gi } }
{{- end }}
{{- end }}

{{/* Probes ask the port of metrics, which needs no key. The argument is the number of tries at the start. */}}
{{- define "cofferdam.probes" -}}
startupProbe: { httpGet: { path: /healthz, port: metrics }, periodSeconds: 2, failureThreshold: {{ . }} }
readinessProbe: { httpGet: { path: /readyz, port: metrics }, periodSeconds: 5, timeoutSeconds: 3 }
# Not /readyz: a restart does not bring Redis or Postgres back.
livenessProbe:
  httpGet: { path: /healthz, port: metrics }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{/* A PodDisruptionBudget. The argument is a dict of `root`, `part`, `name` and `selector`. */}}
{{- define "cofferdam.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "cofferdam.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector: { matchLabels: {{ toJson .selector }} }
{{- end }}
