/** Checks PromQL expressions: every metric, label and state in them exists in our code. */
import { ATTRIBUTE_FACTS, METRIC_FACTS, prometheusName, type MetricFacts } from '@cofferdam/telemetry/api'

const words = (name: string): string => name.replaceAll('.', '_')
const LABELS = new Set(Object.keys(ATTRIBUTE_FACTS).map(words))
const METRICS = new Map<string, MetricFacts>(
  (Object.keys(METRIC_FACTS) as (keyof typeof METRIC_FACTS)[]).flatMap((name) => {
    const facts = METRIC_FACTS[name]
    const parts = facts.kind === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
    return parts.map((part) => [prometheusName(name) + part, facts] as const)
  }),
)

/** Unknown names in a PromQL expression. Empty when all are known. */
export function promqlProblems(expression: string): string[] {
  const problems = [...expression.matchAll(/\bcofferdam_\w+/g)]
    .map(([name]) => name)
    .filter((name) => !METRICS.has(name) && !LABELS.has(name))
    .map((name) => `${name}: neither a metric nor a label`)
  for (const [, metric = '', selector = ''] of expression.matchAll(/\b(cofferdam_\w+)\{([^}]*)\}/g)) {
    const facts = METRICS.get(metric)
    if (facts === undefined) problems.push(`${metric}: no metric`)
    for (const [, label = '', values = ''] of selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"/g)) {
      if (facts !== undefined && !facts.labels.map(words).includes(label))
        problems.push(`${metric}: has no label ${label}`)
      if (label === 'cofferdam_state')
        problems.push(
          ...values
            .split('|')
            .filter((value) => facts?.states?.includes(value) !== true)
            .map((value) => `${metric}: has no state ${value}`),
        )
    }
  }
  return problems
}
