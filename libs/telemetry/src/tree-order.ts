/** The order of spans in a waterfall. */

export interface PlacedSpan {
  span_id: string
  parent_span_id: string | null
  start_ms: number
}

/**
 * Parents before children, siblings by age. Start times are whole milliseconds, so ordering by age alone
 * could put a child before its parent. A span whose parent is missing is a root.
 */
export function spansInTreeOrder<T extends PlacedSpan>(spans: readonly T[]): T[] {
  const present = new Set(spans.map((span) => span.span_id))
  const isRoot = ({ parent_span_id: parent }: T) => parent === null || !present.has(parent)
  const byAge = spans.toSorted((a, b) => a.start_ms - b.start_ms)
  const children = Map.groupBy(byAge, (span) => span.parent_span_id)
  const withChildren = (span: T): T[] => [span, ...(children.get(span.span_id) ?? []).flatMap(withChildren)]
  return byAge.filter(isRoot).flatMap(withChildren)
}
