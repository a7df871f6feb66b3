{{/* Where the sandboxes are. As part of the fleet's chart this is not the namespace of the release. */}}
{{- define "sandboxes.namespace" -}}
{{ .Values.namespace | default .Release.Namespace }}
{{- end }}

{{/* How fast the pool follows. The dispatcher's number rises at once and falls slowly by itself. */}}
{{- define "sandboxes.behavior" -}}
{{- $byClaims := eq .Values.scaledBy "claims" }}
behavior:
  scaleUp:
    stabilizationWindowSeconds: 0
    {{- if $byClaims }}
    policies: [{ type: Percent, value: 100, periodSeconds: 15 }]
    {{- else }}
    policies: [{ type: Pods, value: 50, periodSeconds: 15 }]
    {{- end }}
  scaleDown:
    {{- if $byClaims }}
    stabilizationWindowSeconds: 300
    policies: [{ type: Percent, value: 25, periodSeconds: 60 }]
    {{- else }}
    stabilizationWindowSeconds: 0
    policies: [{ type: Percent, value: 100, periodSeconds: 15 }]
    {{- end }}
{{- end }}
