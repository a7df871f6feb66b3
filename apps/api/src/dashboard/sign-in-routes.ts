/**
 * POST, GET and DELETE /ui/session: sign in, who is signed in, sign out. POST /ui/codes: a code for a link.
 * They are for the dashboard alone, so the OpenAPI document does not list them.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import workspace from '../../package.json' with { type: 'json' }
import { identify } from '../authenticate.ts'
import { addressGroup, createGuessBrake, type GuessBrake } from '../guess-brake.ts'
import type { Caller } from '../key-cache.ts'
import type { App, RouteContext } from '../route-context.ts'
import { refuseForeignPage, requireSafeTransport } from './own-page.ts'
import { notSignedIn, type SignedIn } from './sign-ins.ts'

/** Failed sign-ins of one address: ten, and one more every six seconds. */
const FAILED_SIGN_INS = { burst: 10, perSecond: 10 / 60 }

/** More than any key or code needs. */
const BODY_BYTES = 1024
/** Longer than any key or code. */
const secretText = z.string().min(1).max(200)
const signInSchema = z.union([
  z.strictObject({ api_key: secretText }),
  // `replace`: a person was asked and wants the link's key in place of the one that is signed in.
  z.strictObject({ code: secretText, replace: z.literal(true).optional() }),
])

export function signInRoutes(app: App, context: RouteContext): void {
  const { keys, signIns, publicUrl, jaegerUrl = null } = context
  const brake = createGuessBrake(context.now, FAILED_SIGN_INS)
  const hidden = { hide: true }
  /** Who is signed in and what the pages need to know of this fleet. */
  const shown = ({ caller: { keyId, scope, readOnly }, untilMs }: SignedIn) => ({
    key_id: keyId,
    scope: scope === 'admin' ? ('admin' as const) : ('tenant' as const),
    tenant_id: scope === 'admin' ? null : scope.tenant_id,
    read_only: readOnly,
    expires_at: new Date(untilMs).toISOString(),
    version: workspace.version,
    // Jaeger does not separate tenants: anybody who can reach it can read the traces of all of them.
    jaeger_url: scope === 'admin' ? jaegerUrl : null,
  })

  const signIn = {
    schema: { ...hidden, body: signInSchema },
    bodyLimit: BODY_BYTES,
    // Runs before the body is read, because callers are not authenticated here and anybody can send a body.
    onRequest: async (request: FastifyRequest): Promise<void> => {
      refuseForeignPage(request, publicUrl)
      requireSafeTransport(request, publicUrl)
    },
  }
  app.post('/ui/session', signIn, async (request, reply) => {
    const { body } = request
    if ('code' in body && body.replace !== true) await refuseOtherKey(context, request, body.code)
    const caller = await signInCaller(context, request, body, brake)
    const signedIn = await signIns.begin(request, reply, caller)
    request.log.info({ key_id: caller.keyId, trace_id: request.traceId }, 'signed in to the dashboard')
    return shown(signedIn)
  })

  app.get('/ui/session', { schema: hidden }, async (request) => {
    const signedIn = await signIns.find(request)
    if (signedIn === null) throw notSignedIn()
    return shown(signedIn)
  })

  app.delete('/ui/session', { schema: hidden }, async (request, reply) => {
    await signIns.end(request, reply)
    return reply.code(204).send()
  })

  // Accepts a key and no cookie, because a stolen cookie must not make a second sign-in.
  app.post('/ui/codes', { schema: hidden }, async (request, reply) => {
    const caller = await identify(request, keys)
    request.caller = caller
    const { code, untilMs } = await signIns.makeCode(caller)
    return reply.code(201).send({ code, expires_at: new Date(untilMs).toISOString() })
  })
}

/**
 * Throws `conflict` when the browser is signed in with another key than the code's. Any page can open a link
 * of the dashboard, and a person must notice when it would switch them to somebody else's key.
 */
async function refuseOtherKey(
  { signIns }: RouteContext,
  request: FastifyRequest,
  code: string,
): Promise<void> {
  const before = await signIns.find(request)
  const keyId = before === null ? null : await signIns.keyOfCode(code)
  if (before === null || keyId === null || keyId === before.caller.keyId) return
  throw new CofferdamError(
    'conflict',
    `The link belongs to the key ${keyId}, and this browser is signed in with ${before.caller.keyId}.`,
  )
}

/** The key that signs in. Throws `unauthenticated`, and `rate_limited` when the address failed too often. */
async function signInCaller(
  { keys, signIns }: RouteContext,
  { ip }: FastifyRequest,
  asked: z.output<typeof signInSchema>,
  brake: GuessBrake,
): Promise<Caller> {
  const address = addressGroup(ip)
  // A key that has worked here does not count as a guess, so guesses of others behind the same proxy cannot
  // lock its owner out.
  const isGuess = !('api_key' in asked) || !keys.hasWorked(asked.api_key)
  const waitMs = isGuess ? brake.take(address) : 0
  if (waitMs > 0)
    throw new CofferdamError('rate_limited', 'Too many failed sign-ins came from this address.', {
      details: { retry_in_ms: waitMs },
    })
  let hasFailed = false
  try {
    const caller =
      'code' in asked ? await signIns.takeCode(asked.code) : await keys.verify(asked.api_key, address)
    hasFailed = caller === null
    if (caller !== null) return caller
    throw new CofferdamError(
      'unauthenticated',
      'code' in asked
        ? 'The link was used before, or is older than ten minutes. cofferdam dashboard prints another one.'
        : 'The API key is unknown or was revoked.',
    )
  } finally {
    if (isGuess && !hasFailed) brake.giveBack(address)
  }
}
