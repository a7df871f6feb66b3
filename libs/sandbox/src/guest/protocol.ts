/**
 * Frames v1 between worker and guest agent: type u8, length u32 LE, payload. A payload has at most 64 KiB to
 * the host and 1 MiB to the agent. Only J, R and X are JSON. The program may have forged whatever comes from
 * the guest. A frame that is unknown or too large throws `protocol_violation`, and the caller then destroys
 * the sandbox.
 *
 *   to agent   J job · F file chunk (u32 index, bytes) · G go · I stdin chunk (empty: end) · S soft stop (u32 grace ms)
 *              · B copies of files, also while a program runs (u32 files, u32 bytes, NUL-separated globs)
 *              · C collect (u8: r read, l list files, k list links, d remove; u32 limit, NUL-separated names)
 *              · P ping · K clean (u8 what is kept)
 *   to host    R ready · O/E output · T cap reached (u8 stream, u64 dropped) · V value · F file out · Z collected (u8 status,
 *              text; after K u8 processes that wait) · X exit · A pong (7 × u64 usage) · U progress
 *              (fraction, space, text) · B a copy: side-requests.ts
 *   both ways  N a connection · D its bytes · W credit · Q its end: tunnel.ts; N only to the host
 */
import { CofferdamError } from '@cofferdam/contract'

export const PROTOCOL_VERSION = 1
export const TO_HOST_MAX = 64 * 1024
export const TO_AGENT_MAX = 1024 * 1024
const HEAD_BYTES = 5

const TO_HOST_TYPES = ['R', 'O', 'E', 'T', 'V', 'F', 'Z', 'X', 'A', 'U', 'B', 'N', 'D', 'W', 'Q'] as const
export type ToHostType = (typeof TO_HOST_TYPES)[number]
export type ToAgentType = 'J' | 'F' | 'G' | 'I' | 'S' | 'C' | 'P' | 'K' | 'B' | 'D' | 'W' | 'Q'

export interface Frame {
  type: ToHostType
  payload: Buffer
}

const KNOWN: ReadonlySet<string> = new Set(TO_HOST_TYPES)
const isKnown = (type: string): type is ToHostType => KNOWN.has(type)

/** The error for a guest that broke the protocol. `what` goes to the log. */
export const violation = (what: string): CofferdamError =>
  new CofferdamError('protocol_violation', undefined, { details: { what } })

/** One frame to the agent. Throws RangeError above 1 MiB. */
export function encodeFrame(type: ToAgentType, payload: Uint8Array = new Uint8Array(0)): Buffer {
  if (payload.length > TO_AGENT_MAX) throw new RangeError(`frame ${type} of ${payload.length} bytes`)
  const frame = Buffer.allocUnsafe(HEAD_BYTES + payload.length)
  frame.writeUInt8(type.charCodeAt(0), 0)
  frame.writeUInt32LE(payload.length, 1)
  frame.set(payload, HEAD_BYTES)
  return frame
}

export interface FrameDecoder {
  /**
   * The complete frames of the stream so far, in order. Throws `protocol_violation`, and must not be used
   * after that. The payload of an output frame is valid only until the next frame is requested. So a flood of
   * output needs no copies.
   */
  push(chunk: Buffer): Generator<Frame, void, void>
}

/** Incremental decoder. Holds at most one incomplete frame (64 KiB and its head) and the current chunk. */
export function createFrameDecoder(): FrameDecoder {
  // Assembles a frame that is split over chunks. The buffer is reused.
  let cut: Buffer = Buffer.alloc(0)
  let held = 0

  /** Copies from the chunk what the split frame lacks to `size` bytes. Returns the number of bytes copied. */
  function gather(chunk: Buffer, at: number, size: number): number {
    if (held >= size) return 0
    if (cut.length < size) {
      const larger = Buffer.allocUnsafe(size)
      cut.copy(larger, 0, 0, held)
      cut = larger
    }
    const taken = chunk.copy(cut, held, at, Math.min(chunk.length, at + size - held))
    held += taken
    return taken
  }

  return {
    *push(chunk) {
      for (let at = 0; at < chunk.length;) {
        if (held === 0 && chunk.length - at >= HEAD_BYTES) {
          const { type, end } = headAt(chunk, at)
          if (end <= chunk.length) {
            yield { type, payload: chunk.subarray(at + HEAD_BYTES, end) }
            at = end
            continue
          }
        }
        at += gather(chunk, at, HEAD_BYTES)
        if (held < HEAD_BYTES) return
        const { type, end } = headAt(cut, 0)
        at += gather(chunk, at, end)
        if (held < end) return
        held = 0
        const payload = cut.subarray(HEAD_BYTES, end)
        yield { type, payload: isOutput(type) ? payload : Buffer.from(payload) }
      }
    },
  }
}

const isOutput = (type: ToHostType): boolean => type === 'O' || type === 'E'

/** The frame whose head is at `at`, and where it ends. */
function headAt(data: Buffer, at: number): { type: ToHostType; end: number } {
  const type = String.fromCharCode(data.readUInt8(at))
  const length = data.readUInt32LE(at + 1)
  if (!isKnown(type)) throw violation(`unknown frame type ${data.readUInt8(at)}`)
  if (length > TO_HOST_MAX) throw violation(`frame ${type} of ${length} bytes`)
  return { type, end: at + HEAD_BYTES + length }
}
