/**
 * One connection of the program as a Duplex, with credit in both directions. Neither side sends more than the
 * other can buffer, so a slow reader on either end stops the writer on the other. Received bytes are copied
 * into one buffer before the stream gets them, because a flood of one-byte frames would otherwise hold an
 * object per byte.
 */
import { Duplex } from 'node:stream'
import { encodeFrame, violation } from './protocol.ts'

/** The same numbers as in tunnel.py, which explains them. */
const WINDOW = 256 * 1024
const END = 0
const OVER = 1
const RESET = 2

/** Small enough that output frames and other connections do not wait long behind one chunk. */
const CHUNK = 64 * 1024
/**
 * Payloads of this size and more are passed on without a copy. A smaller one would keep a whole read of 64
 * KiB in memory.
 */
const UNCOPIED_MIN = 16 * 1024

/** The channel to the guest, shared by all connections. */
export interface Lane<T> {
  send(frame: Buffer): void
  isFull(): boolean
  wait(connection: T): void
  forget(id: number, connection: T): void
}

/** A connection of the program; the registry in tunnel.ts calls receive, grant, quit, flush and abandon. */
export class Connection extends Duplex {
  readonly #id: number
  readonly #lane: Lane<Connection>
  /** Bytes that this side may send. */
  #credit = WINDOW
  #unsent: { chunk: Buffer; done: (error?: Error | null) => void } | null = null
  /** Bytes that the guest may send. */
  #granted = WINDOW
  /** Received and not yet handed to the stream. */
  #gathered: Buffer = Buffer.alloc(0)
  #size = 0
  /** Handed to the stream since the last grant. */
  #taken = 0
  #isWanted = false
  #isScheduled = false
  #isEnded = false
  /** No more frames are sent: the guest already knows that the connection is over, or must not be told. */
  #isOver = false

  constructor(id: number, lane: Lane<Connection>) {
    // With a high-water mark of one byte, the stream holds one buffer at a time. It calls `_read` for the
    // next one when the reader took the buffer, and `_read` then returns credit.
    super({ allowHalfOpen: true, readableHighWaterMark: 1, writableHighWaterMark: CHUNK })
    this.#id = id
    this.#lane = lane
    // A reset by the program must not end the worker when nobody listens.
    this.on('error', () => {})
  }

  receive(bytes: Buffer): void {
    if (this.#isEnded) throw violation('frame D after the end')
    if (bytes.length === 0 || bytes.length > this.#granted) throw violation('frame D beyond the window')
    this.#granted -= bytes.length
    if (this.#isWanted && this.#size === 0 && bytes.length >= UNCOPIED_MIN) {
      this.#give(bytes)
      return
    }
    if (this.#size + bytes.length > this.#gathered.length) {
      const larger = Buffer.allocUnsafeSlow(
        Math.min(WINDOW, Math.max(2 * this.#gathered.length, this.#size + bytes.length)),
      )
      this.#gathered.copy(larger, 0, 0, this.#size)
      this.#gathered = larger
    }
    bytes.copy(this.#gathered, this.#size)
    this.#size += bytes.length
    this.#schedule()
  }

  grant(more: number): void {
    if (more === 0 || this.#credit + more > WINDOW) throw violation('frame W beyond the window')
    this.#credit += more
    if (this.#unsent !== null && !this.#lane.isFull()) this.flush()
    else if (this.#unsent !== null) this.#lane.wait(this)
  }

  quit(how: number): void {
    if (how === RESET) {
      this.#isOver = true
      this.#lane.forget(this.#id, this)
      this.destroy(Object.assign(new Error('the program reset its connection'), { code: 'ECONNRESET' }))
      return
    }
    if (how !== END || this.#isEnded) throw violation('frame Q has another shape')
    this.#isEnded = true
    this.#schedule()
  }

  abandon(): void {
    this.#isOver = true
    this.destroy()
  }

  /** Sends one chunk as far as credit reaches, then waits for its next turn. */
  flush(): void {
    const unsent = this.#unsent
    if (unsent === null || this.#credit === 0) return
    const now = unsent.chunk.subarray(0, Math.min(CHUNK, this.#credit))
    this.#credit -= now.length
    this.#tell('D', now)
    if (now.length === unsent.chunk.length) {
      this.#unsent = null
      unsent.done()
      return
    }
    unsent.chunk = unsent.chunk.subarray(now.length)
    if (this.#lane.isFull()) this.#lane.wait(this)
    else this.flush()
  }

  /**
   * Delivers only after all frames of the current chunk were received, so that many small payloads become one
   * buffer.
   */
  #schedule(): void {
    if (this.#isScheduled || !this.#isWanted) return
    this.#isScheduled = true
    queueMicrotask(() => {
      this.#isScheduled = false
      this.#deliver()
    })
  }

  #deliver(): void {
    if (this.destroyed || !this.#isWanted) return
    if (this.#size > 0) {
      const bytes = this.#gathered.subarray(0, this.#size)
      this.#gathered = Buffer.alloc(0)
      this.#size = 0
      this.#give(bytes)
    } else if (this.#isEnded) {
      this.#isWanted = false
      this.push(null)
    }
  }

  #give(bytes: Buffer): void {
    this.#taken += bytes.length
    this.#isWanted = false
    this.push(bytes)
  }

  override _read(): void {
    this.#isWanted = true
    // The reader took its data. Credit returns in quarters of the window, which takes few frames and never
    // stalls the sender.
    if (this.#taken >= WINDOW / 4 && !this.#isEnded) {
      const more = Buffer.alloc(4)
      more.writeUInt32LE(this.#taken)
      this.#granted += this.#taken
      this.#taken = 0
      this.#tell('W', more)
    }
    if (this.#size > 0 || this.#isEnded) this.#schedule()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (chunk.length === 0) return done()
    this.#unsent = { chunk, done }
    if (this.#lane.isFull()) this.#lane.wait(this)
    else this.flush()
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#tell('Q', Buffer.of(END))
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#tell('Q', Buffer.of(error === null ? OVER : RESET))
    this.#isOver = true
    this.#lane.forget(this.#id, this)
    this.#gathered = Buffer.alloc(0)
    this.#size = 0
    this.#unsent = null
    done(error)
  }

  #tell(type: 'D' | 'W' | 'Q', body: Buffer): void {
    if (this.#isOver) return
    const payload = Buffer.allocUnsafe(4 + body.length)
    payload.writeUInt32LE(this.#id)
    body.copy(payload, 4)
    this.#lane.send(encodeFrame(type, payload))
  }
}
