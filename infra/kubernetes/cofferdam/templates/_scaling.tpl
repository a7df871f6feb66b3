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
A ScaledObject by waiting and running executions, and by the longest wait. Prometheus gets both from the API,
so they exist even without a worker. `min` is at least 1, because workers also drain the outbox, sweep, and
run schedules. The argument is as above, with `slots` and `lanes`.
*/}}
{{- define "cofferdam.queueScaling" -}}
{{- $lanes := join "|" .lanes }}
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
        query: {{ .autoscaling.query | default (printf "sum(max by (cofferdam_lane, cofferdam_state) (cofferdam_queue_depth{cofferdam_lane=~%q,cofferdam_state=~\"queued|running\"}))" $lanes) | quote }}
        threshold: {{ .slots | quote }}
    # More workers while somebody waits for longer: long runs, or slots limited by memory.
    - type: prometheus
      metricType: Value
      metadata:
        serverAddress: {{ .root.Values.prometheusUrl | quote }}
        query: {{ printf "max(cofferdam_queue_age_seconds{cofferdam_lane=~%q})" $lanes | quote }}
        threshold: {{ .autoscaling.waitSeconds | quote }}
{{- end }}
