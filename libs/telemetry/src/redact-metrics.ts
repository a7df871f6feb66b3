/** Redacts the labels of metrics. The names of metrics are ours, so they contain no secrets. */
import type { ResourceMetrics } from '@opentelemetry/sdk-metrics'
import type { GuardText } from './guard-text.ts'
import { redactAttributes } from './redact-span.ts'

export function redactMetrics(metrics: ResourceMetrics, guard: GuardText): ResourceMetrics {
  const point = <T extends { attributes: ResourceMetrics['resource']['attributes'] }>(p: T): T => ({
    ...p,
    attributes: redactAttributes(p.attributes, guard),
  })
  return {
    resource: metrics.resource,
    scopeMetrics: metrics.scopeMetrics.map(({ scope, metrics: list }) => ({
      scope,
      metrics: list.map((metric) =>
        Object.assign({ ...metric }, { dataPoints: metric.dataPoints.map(point) }),
      ),
    })),
  }
}
