/**
 * Keeps the first or the last bytes of a stream in memory, at most the limit. Copies them, so that tiny
 * chunks do not hold the large buffers from which they were cut.
 */

export interface ByteWindow {
  readonly total: number
  add(chunk: Uint8Array): void
  bytes(): Uint8Array
}

export function createByteWindow(limit: number, keep: 'head' | 'tail'): ByteWindow {
  // Grows by doubling, because most programs print little and the limit may be megabytes.
  let ring = Buffer.alloc(0)
  let total = 0

  function grow(needed: number): void {
    if (needed <= ring.length) return
    const larger = Buffer.alloc(Math.min(limit, Math.max(needed, 2 * ring.length, 1024)))
    ring.copy(larger)
    ring = larger
  }

  function addHead(chunk: Uint8Array): void {
    const room = Math.max(0, limit - total)
    const kept = chunk.subarray(0, room)
    if (kept.length === 0) return
    grow(total + kept.length)
    ring.set(kept, total)
  }

  function addTail(chunk: Uint8Array): void {
    const kept = chunk.subarray(Math.max(0, chunk.length - limit))
    if (kept.length === 0) return
    grow(Math.min(limit, total + chunk.length))
    const at = (total + chunk.length - kept.length) % ring.length
    const first = kept.subarray(0, ring.length - at)
    ring.set(first, at)
    ring.set(kept.subarray(first.length), 0)
  }

  return {
    get total() {
      return total
    },
    add(chunk) {
      if (keep === 'head') addHead(chunk)
      else addTail(chunk)
      total += chunk.length
    },
    bytes() {
      if (total <= ring.length) return ring.subarray(0, total)
      if (keep === 'head') return ring
      const at = ring.length === 0 ? 0 : total % ring.length
      return Buffer.concat([ring.subarray(at), ring.subarray(0, at)])
    },
  }
}
