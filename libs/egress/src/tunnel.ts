/**
 * CONNECT: bytes in both directions. Under an allow-list the name of the CONNECT was judged, so the traffic
 * inside must ask for that same name: a TLS handshake by its server name, plain HTTP by its Host. Otherwise
 * one allowed host of a shared front end would open all others behind it.
 *
 *   first bytes ─► TLS    the gate holds the ClientHello until its name was read
 *               ─► HTTP   the proxy's parser judges every request of the connection (proxy-server.ts)
 *               ─► other  passes: SSH, SMTP and databases know no other host behind a port
 */
import { Transform, type Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { MAX_HELLO_BYTES, readHello } from './client-hello.ts'
import { protocolOf, type Protocol } from './first-bytes.ts'
import { parseHost, type Target } from './host.ts'
import { Refused } from './refusal.ts'

/** Joins the two ends until both are done or one breaks. Bytes to the origin pass `gate`. */
export async function joinTunnel(program: Duplex, origin: Duplex, gate: Duplex | null): Promise<void> {
  const outward = gate === null ? pipeline(program, origin) : pipeline(program, gate, origin)
  // The origin may speak first (SSH, SMTP), so its direction never waits for the gate.
  const results = await Promise.allSettled([outward, pipeline(origin, program)])
  program.destroy()
  origin.destroy()
  const refused = [
    ...results.map((end) => (end.status === 'rejected' ? end.reason : null)),
    origin.errored,
  ].find((error) => error instanceof Refused)
  if (refused instanceof Refused) throw refused
}

/**
 * The program's protocol, and the bytes that it has sent so far. Also `other` if the origin speaks first,
 * which no HTTP origin does, or if either side ends before the protocol is known. Reads nothing from the
 * origin.
 */
export async function firstWords(
  program: Duplex,
  origin: Duplex,
): Promise<{ protocol: Protocol; said: Buffer }> {
  let said = Buffer.alloc(0)
  for (;;) {
    const spoken = await firstReadable(program, origin)
    const chunk = spoken === program ? (program.read() as Buffer | null) : null
    if (spoken !== program || (chunk === null && (program.readableEnded || program.destroyed)))
      return { protocol: 'other', said }
    if (chunk === null) continue
    said = Buffer.concat([said, chunk])
    const protocol = protocolOf(said)
    if (protocol !== null) return { protocol, said }
  }
}

/** The first of the two that has something to read, has ended, or is gone. */
async function firstReadable(program: Duplex, origin: Duplex): Promise<Duplex> {
  const { promise, resolve } = Promise.withResolvers<Duplex>()
  const watch = (stream: Duplex): (() => void) => {
    const found = (): void => resolve(stream)
    for (const event of EVENTS) stream.on(event, found)
    if (stream.readableLength > 0 || stream.readableEnded || stream.destroyed) found()
    return () => EVENTS.forEach((event) => stream.off(event, found))
  }
  const stops = [watch(program), watch(origin)]
  try {
    return await promise
  } finally {
    for (const stop of stops) stop()
  }
}

const EVENTS = ['readable', 'end', 'close'] as const

/**
 * Holds back the first bytes, which start with `said`, until they are neither TLS nor HTTP, or a whole
 * ClientHello that names `target`.
 */
export function nameGate(target: Target, said: Buffer): Transform {
  let held = Buffer.alloc(0)
  let isOpen = false
  const refuse = (why: string): Refused => new Refused(target.text, 'server_name', why)
  const gate = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (isOpen) return done(null, chunk)
      held = Buffer.concat([held, chunk])
      const hello = readHello(held)
      if (hello.kind === 'incomplete' && held.length <= MAX_HELLO_BYTES) return done()
      if (hello.kind === 'not_tls') {
        // Reached only if the origin spoke first, or if the program's first line was not complete.
        const protocol = protocolOf(held)
        if (protocol === null) return done()
        if (protocol === 'http') return done(refuse('an HTTP request came where the server spoke first'))
      }
      if (hello.kind === 'incomplete' || hello.kind === 'broken')
        return done(refuse('the TLS handshake does not begin with a readable ClientHello'))
      if (hello.kind === 'hello' && !namesTarget(hello.name, target))
        return done(
          refuse(
            hello.name === null
              ? 'the TLS handshake names no server'
              : `the TLS handshake asks for "${hello.name.slice(0, 253)}"`,
          ),
        )
      isOpen = true
      return done(null, held)
    },
    flush(done) {
      if (isOpen || held.length === 0) done()
      // A first line that never ended is no HTTP request, so it may pass.
      else if (readHello(held).kind === 'not_tls') done(null, held)
      else done(refuse('the TLS handshake does not begin with a readable ClientHello'))
    },
  })
  if (said.length > 0) gate.write(said)
  return gate
}

/** An address is never a server name (RFC 6066 §3), so a handshake to an address may have none. */
const namesTarget = (name: string | null, { host }: Target): boolean =>
  name === null ? host.kind === 'address' : parseHost(name)?.text === host.text
