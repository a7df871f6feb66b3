/**
 * A client of one configured package mirror: verified TLS, bounded answers. Credentials in its URL go only to
 * its own origin, in a header, and never into a message, a redirect or a page.
 */
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'

/** Largest index or packument. The largest abbreviated packuments of the public registry are near 10 MiB. */
const MAX_INDEX_BYTES = 16 * 2 ** 20
/** Largest package file. Larger wheels, such as machine-learning frameworks, belong into the image. */
const MAX_FILE_BYTES = 256 * 2 ** 20
/** Documents that a worker reads at once from one mirror. With MAX_INDEX_BYTES each, at most 128 MiB. */
const MAX_DOCUMENTS = 8
/** Mirrors redirect to a canonical name, or to a store behind the same host. */
const MAX_REDIRECTS = 5

/** A failure of the mirror, in public words. */
export class MirrorFailure extends Error {
  /** 404 when the mirror does not have it, else 502. */
  readonly http: 404 | 502

  constructor(http: 404 | 502, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'MirrorFailure'
    this.http = http
  }
}

export interface MirrorFile {
  body: Readable
  bytes: number | null
  /** The address after all redirects. */
  url: URL
}

export interface Mirror {
  /** Address of `path` (already escaped) below the mirror's URL. */
  at(path: string): URL
  /** Whether files may be fetched from the address. */
  serves(url: URL): boolean
  /** An index document as text, with its address after all redirects. */
  document(url: URL, accept: string, signal: AbortSignal): Promise<{ text: string; type: string; url: URL }>
  /** A file, streamed. Its body ends with an error above the bound. */
  file(url: URL, signal: AbortSignal): Promise<MirrorFile>
}

export interface MirrorOptions {
  url: string
  /** Other hosts that may serve files, by https, without credentials. */
  fileHosts: readonly string[]
  /** A request fails after this long without the answer's head, or without progress after it. */
  idleMs: number
}

export function createMirror({ url, fileHosts, idleMs }: MirrorOptions): Mirror {
  const base = new URL(url.endsWith('/') ? url : `${url}/`)
  const credentials =
    base.username === '' && base.password === ''
      ? null
      : Buffer.from(`${decodeURIComponent(base.username)}:${decodeURIComponent(base.password)}`).toString(
          'base64',
        )
  base.username = ''
  base.password = ''

  const turns = createTurns(MAX_DOCUMENTS)
  const serves = (target: URL): boolean =>
    target.origin === base.origin ||
    (target.protocol === 'https:' && target.port === '' && fileHosts.includes(target.hostname))

  const get = async (
    start: URL,
    accept: string,
    signal: AbortSignal,
  ): Promise<{ answer: Response; url: URL }> => {
    let at = start
    for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
      if (!serves(at)) throw new MirrorFailure(502, 'the package mirror points to another host')
      at.username = ''
      at.password = ''
      const headers = {
        accept,
        // Unencoded, so that lengths and digests are the mirror's.
        ...(accept === '*/*' ? { 'accept-encoding': 'identity' } : {}),
        ...(credentials !== null && at.origin === base.origin
          ? { authorization: `Basic ${credentials}` }
          : {}),
      }
      const answer = await fetch(at, { headers, redirect: 'manual', signal })
      const location = answer.headers.get('location')
      if (answer.status >= 300 && answer.status < 400 && location !== null) {
        await answer.body?.cancel()
        if (!URL.canParse(location, at.href)) break
        at = new URL(location, at)
        continue
      }
      if (answer.ok) return { answer, url: at }
      await answer.body?.cancel()
      if (answer.status === 404 || answer.status === 410)
        throw new MirrorFailure(404, 'the package mirror does not have it')
      throw new MirrorFailure(502, `the package mirror answered ${answer.status}`)
    }
    throw new MirrorFailure(502, 'the package mirror redirects without end')
  }

  /** Opens `start`. The returned body fails after `idleMs` of silence and above `max` bytes. */
  const open = async (
    start: URL,
    accept: string,
    max: number,
    signal: AbortSignal,
  ): Promise<{ answer: Response; url: URL; body: Readable }> => {
    const silence = new AbortController()
    const clock = setTimeout(
      () => silence.abort(new MirrorFailure(502, `the package mirror was silent for ${idleMs} ms`)),
      idleMs,
    )
    try {
      const { answer, url: finalUrl } = await get(
        new URL(start),
        accept,
        AbortSignal.any([signal, silence.signal]),
      )
      const body = Readable.from(bounded(answer, max, clock), { objectMode: false })
      body.once('close', () => clearTimeout(clock))
      return { answer, url: finalUrl, body }
    } catch (error) {
      clearTimeout(clock)
      throw inWords(error)
    }
  }

  return {
    at: (path) => new URL(path, base),
    serves,
    async document(start, accept, signal) {
      await turns.take()
      try {
        const { answer, url: from, body } = await open(start, accept, MAX_INDEX_BYTES, signal)
        const chunks: Buffer[] = []
        for await (const chunk of body) chunks.push(chunk as Buffer)
        const type = answer.headers.get('content-type') ?? ''
        return { text: Buffer.concat(chunks).toString(), type, url: from }
      } catch (error) {
        throw inWords(error)
      } finally {
        turns.give()
      }
    },
    async file(start, signal) {
      const { answer, url: from, body } = await open(start, '*/*', MAX_FILE_BYTES, signal)
      const length = answer.headers.get('content-length')
      const encoding = answer.headers.get('content-encoding') ?? 'identity'
      // The server labels the .gz file itself as encoded. fetch then unpacks it, so its digest would differ.
      if (encoding.toLowerCase().includes('gzip') && /gz$/i.test(start.pathname)) {
        body.destroy()
        throw new MirrorFailure(
          502,
          `the package mirror calls .gz files encoded (Content-Encoding: ${encoding})`,
        )
      }
      const bytes = length === null || encoding !== 'identity' ? null : Number(length)
      if (bytes !== null && bytes > MAX_FILE_BYTES) {
        body.destroy()
        throw new MirrorFailure(502, `the file has ${bytes} bytes; at most ${MAX_FILE_BYTES} pass`)
      }
      return { body, bytes, url: from }
    },
  }
}

/** At most `count` at a time, first come, first served. Each execution bounds its waiting requests. */
function createTurns(count: number): { take(): Promise<void>; give(): void } {
  const waiting: (() => void)[] = []
  let free = count
  return {
    async take() {
      if (free > 0) free -= 1
      else await new Promise<void>((resolve) => waiting.push(resolve))
    },
    give() {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    },
  }
}

async function* bounded(answer: Response, max: number, clock: NodeJS.Timeout): AsyncGenerator<Uint8Array> {
  let seen = 0
  for await (const chunk of (answer.body ?? []) as ReadableStream<Uint8Array>) {
    clock.refresh()
    seen += chunk.length
    if (seen > max) throw new MirrorFailure(502, `the package mirror sent more than ${max} bytes`)
    yield chunk
  }
}

/** Errors of fetch contain the address, which must not be shown. */
function inWords(error: unknown): MirrorFailure {
  return error instanceof MirrorFailure
    ? error
    : new MirrorFailure(502, 'the package mirror cannot be reached', error)
}
