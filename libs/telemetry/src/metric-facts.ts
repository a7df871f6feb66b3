/** What metric-catalog.ts says of a metric. */
import type { Teller } from './catalog.ts'
import type { AttributeName } from './names.ts'

export interface MetricFacts {
  kind: 'counter' | 'gauge' | 'histogram'
  /** Unit in UCUM. Empty for counts. */
  unit: '' | 's' | 'By' | '1'
  from: Teller
  labels: readonly AttributeName[]
  /** Values of `cofferdam.state`, if it is a label. */
  states?: readonly string[]
  about: string
}
