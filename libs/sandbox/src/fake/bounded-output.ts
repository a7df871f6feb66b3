/** Output of a fake program: passed on up to the stream's limit, counted beyond it. */
import { unlessAborted, type Exit, type RunIo } from '@cofferdam/contract'

// 64 KiB: the pipe buffer on Linux, so the chunks look like those of a real program.
const CHUNK_BYTES = 65_536

type Stream = 'stdout' | 'stderr'

export class BoundedOutput {
  readonly #io: RunIo
  readonly #stop: AbortSignal
  readonly #written = { stdout: 0, stderr: 0 }

  constructor(io: RunIo, stop: AbortSignal) {
    this.#io = io
    this.#stop = stop
  }

  text(stream: Stream, text: string): Promise<void> {
    return this.bytes(stream, Buffer.from(text))
  }

  async bytes(stream: Stream, bytes: Uint8Array): Promise<void> {
    const room = Math.max(0, this.#io.maxOutputBytes[stream] - this.#written[stream])
    this.#written[stream] += bytes.length
    const kept = bytes.subarray(0, room)
    for (let at = 0; at < kept.length; at += CHUNK_BYTES) {
      this.#stop.throwIfAborted()
      const taken = this.#io.onOutput(stream, kept.slice(at, at + CHUNK_BYTES))
      // Waits for a slow reader, but not after an abort.
      if (taken !== undefined) await unlessAborted(taken, this.#stop)
    }
  }

  /** Writes `text` so many `times`, without creating what would be dropped. */
  async repeat(stream: Stream, text: Uint8Array, times: number): Promise<void> {
    const total = text.length * times
    const room = Math.max(0, this.#io.maxOutputBytes[stream] - this.#written[stream])
    const kept = Math.min(total, room)
    const perChunk = Math.max(1, Math.floor(CHUNK_BYTES / text.length)) * text.length
    const pattern = Buffer.alloc(Math.min(perChunk, kept), text)
    for (let at = 0; at < kept; at += perChunk) {
      await this.bytes(stream, pattern.subarray(0, Math.min(perChunk, kept - at)))
    }
    this.#written[stream] += total - kept
  }

  /** The output counters of `Exit`. */
  counts(): Pick<Exit, 'outputBytes' | 'outputDropped'> {
    const { maxOutputBytes } = this.#io
    return {
      outputBytes: { ...this.#written },
      outputDropped: {
        stdout: this.#written.stdout > maxOutputBytes.stdout,
        stderr: this.#written.stderr > maxOutputBytes.stderr,
      },
    }
  }
}
