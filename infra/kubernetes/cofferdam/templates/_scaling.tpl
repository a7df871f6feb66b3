{{/* Scaling in is safe at any time, but a new worker costs some seconds: up at once, down slowly. */}}
{{- define "cofferdam.behavior" -}}
behavior:
  scaleUp:
    stabilizationWindowSeconds: 0
    policies: [{ type: Percent, value: 100, periodSeconds: 30 }]
  scaleDown:
    stabilizationWindowSeconds: 300
    policies: [{ type: Percent, value: 25, periodSeconds: 60 }]
{{- end }}

{{/* An HPA by CPU. The argument is a dict of `root`, `part`, `name` and `autoscaling`. */}}
{{- define "cofferdam.cpuScaling" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "cofferdam.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ .name }} }
  minReplicas: {{ .autoscaling.min }}
  maxReplicas: {{ .autoscaling.max }}
  {{- include "cofferdam.behavior" . | nindent 2 }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ .autoscaling.cpuPercent }} }
{{- end }}

{{/*
A ScaledObject by the executions that wait for this group of workers or run there, and by the longest wait.
Prometheus gets both from the API, for every group with a living worker. So `min` is at least 1. Workers also
drain the outbox, sweep, and run schedules. The argument is as above, with `slots`, `lanes` and `group`.
*/}}
{{- define "cofferdam.queueScaling" -}}
{{- $of := printf "cofferdam_worker_group=%q,cofferdam_lane=~%q" .group (join "|" .lanes) }}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "cofferdam.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { name: {{ .name }} }
  minReplicaCount: {{ .autoscaling.min }}
  maxReplicaCount: {{ .autoscaling.max }}
  pollingInterval: 15
  # Without metrics: workers for a day without them.
  fallback: { failureThreshold: 4, replicas: {{ max 4 .autoscaling.min }} }
  advanced:
    horizontalPodAutoscalerConfig:
      {{- include "cofferdam.behavior" . | nindent 6 }}
  triggers:
    # Executions for each worker of this kind: its slots.
    - type: prometheus
      metadata:
        serverAddress: {{ .root.Values.prometheusUrl | quote }}
        query: {{ .autoscaling.query | default (printf "sum(max by (cofferdam_lane, cofferdam_state) (cofferdam_group_depth{%s}))" $of) | quote }}
        threshold: {{ .slots | quote }}
    # More workers while somebody waits for longer: long runs, or slots limited by memory.
    - type: prometheus
      metricType: Value
      metadata:
        serverAddress: {{ .root.Values.prometheusUrl | quote }}
        query: {{ printf "max(cofferdam_group_age_seconds{%s})" $of | quote }}
        threshold: {{ .autoscaling.waitSeconds | quote }}
{{- end }}
