/** The `Range` header of RFC 9110 §14: one `bytes` range; anything else is ignored, as the RFC allows. */

/** `end` is exclusive. */
export interface ByteRange {
  start: number
  end: number
}

/**
 * What to send for a `Range` header over `total` bytes.
 * `whole`: send everything (no header, another unit, several ranges, or bad syntax); `part`: 206; `outside`: 416.
 */
export function selectRange(
  header: string | undefined,
  total: number,
): { kind: 'whole' } | { kind: 'part'; range: ByteRange } | { kind: 'outside' } {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.replaceAll(' ', '') ?? '')
  const [, first = '', last = ''] = match ?? []
  if (first === '' && last === '') return { kind: 'whole' }
  if (first === '') {
    const length = Math.min(Number(last), total)
    return length === 0 ? { kind: 'outside' } : { kind: 'part', range: { start: total - length, end: total } }
  }
  const start = Number(first)
  const end = last === '' ? total : Math.min(Number(last) + 1, total)
  if (last !== '' && Number(last) < start) return { kind: 'whole' }
  return start >= total ? { kind: 'outside' } : { kind: 'part', range: { start, end } }
}
