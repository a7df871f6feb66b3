/** The guest's frames as far as a batch has to know them: where a request ends, and the end of a program that has no agent any more. */

const STOP = 'S'.charCodeAt(0)

/** A soft stop, which is no request. */
export const isStop = (chunk: Buffer): boolean => chunk[0] === STOP

const KILLED_FOR_MEMORY = {
  code: null,
  signal: 'SIGKILL',
  wallUs: 0,
  cpuUs: null,
  maxRssKb: 0,
  memPeak: null,
  oomKills: 1,
  pidsPeak: null,
  pidsHit: null,
  diskFull: false,
  outBytes: 0,
  errBytes: 0,
  outDropped: 0,
  errDropped: 0,
  leftovers: false,
}

/** The end of a program that the service ended for its memory, as the agent would have said it. */
export function endForMemory(): Buffer {
  const payload = Buffer.from(JSON.stringify(KILLED_FOR_MEMORY))
  const head = Buffer.alloc(5)
  head.write('X', 'latin1')
  head.writeUInt32LE(payload.length, 1)
  return Buffer.concat([head, payload])
}

/** Null while frames are missing: a job is whole with its go and, where it has input, the end of that; others are one frame. */
export function wholeRequest(bytes: Buffer): { isRun: boolean } | null {
  const frames = [...framesOf(bytes)]
  const [first] = frames
  if (first === undefined) return null
  if (first.type !== 'J') return { isRun: false }
  const job = JSON.parse(first.payload.toString('utf8')) as { op: string; stdin?: number | null }
  if (!frames.some(({ type }) => type === 'G')) return null
  if (job.op !== 'run') return { isRun: false }
  const hasEnd = frames.some(({ type, payload }) => type === 'I' && payload.length === 0)
  return job.stdin == null || hasEnd ? { isRun: true } : null
}

function* framesOf(bytes: Buffer): Generator<{ type: string; payload: Buffer }> {
  for (let at = 0; at + 5 <= bytes.length;) {
    const length = bytes.readUInt32LE(at + 1)
    if (at + 5 + length > bytes.length) return
    yield { type: String.fromCharCode(bytes[at] ?? 0), payload: bytes.subarray(at + 5, at + 5 + length) }
    at += 5 + length
  }
}
