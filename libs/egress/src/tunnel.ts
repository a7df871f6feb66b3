/**
 * CONNECT: bytes both ways. Under an allow-list the name of the CONNECT is what was judged, so a TLS handshake through it
 * must ask for that same name; otherwise one allowed host of a shared front end would open all the others behind it.
 */
import { Transform, type Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { MAX_HELLO_BYTES, readHello } from './client-hello.ts'
import { parseHost, type Target } from './host.ts'
import { Refused } from './refusal.ts'

/** Joins the two ends until both are done or one breaks. */
export async function joinTunnel(
  program: Duplex,
  origin: Duplex,
  target: Target,
  checkServerName: boolean,
): Promise<void> {
  const outward = checkServerName
    ? pipeline(program, serverNameGate(target), origin)
    : pipeline(program, origin)
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

/** Holds the first bytes until they are no TLS, or a whole ClientHello that names `target` or nothing. */
function serverNameGate(target: Target): Transform {
  let held = Buffer.alloc(0)
  let isOpen = false
  const refuse = (why: string): Refused => new Refused(target.text, 'server_name', why)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (isOpen) return done(null, chunk)
      held = Buffer.concat([held, chunk])
      const hello = readHello(held)
      if (hello.kind === 'incomplete' && held.length <= MAX_HELLO_BYTES) return done()
      if (hello.kind === 'incomplete' || hello.kind === 'broken')
        return done(refuse('the TLS handshake does not begin with a readable ClientHello'))
      if (hello.kind === 'hello' && hello.name !== null && parseHost(hello.name)?.text !== target.host.text)
        return done(refuse(`the TLS handshake asks for "${hello.name.slice(0, 253)}"`))
      isOpen = true
      return done(null, held)
    },
    flush(done) {
      if (isOpen || held.length === 0) done()
      else done(refuse('the TLS handshake does not begin with a readable ClientHello'))
    },
  })
}
