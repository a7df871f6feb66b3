/** Our client reads E2B's examples, and the double's answers have their shapes. */
import { replay } from '@cofferdam/backend-remote/testing'
import { expect, it } from 'vitest'
import { E2B, E2B_ENVD, processEvent } from '../double/published.ts'
import { encodeMessage } from '../src/connect-messages.ts'
import { createControlApi } from '../src/control-api.ts'
import { createEnvd } from '../src/envd.ts'

/** e2b-dev/E2B (MIT), spec/envd/envd.yaml: the examples of `UploadSuccess` and `InvalidUser`. */
const UPLOADED = [{ path: '/home/user/hello.txt', name: 'hello.txt', type: 'file' }]
const UNKNOWN_USER = {
  message: "error looking up user 'nonexistent': user: unknown user nonexistent",
  code: 401,
}
/** Messages that npm `e2b` 2.51.0 accepts as output and end of `echo hi`. */
const ECHO_HI = [
  { event: { start: { pid: 123 } } },
  { event: { data: { stdout: 'aGkK' } } },
  { event: { end: { exitCode: 0, exited: true, status: 'exit status 0' } } },
]

it('sends requests as E2B publishes them, and reads its examples', async () => {
  E2B_ENVD.checkAnswer('POST', '/files', 200, UPLOADED)
  E2B_ENVD.checkAnswer('POST', '/files', 401, UNKNOWN_USER)
  for (const event of ECHO_HI) expect(processEvent.safeParse(event).success).toBe(true)
  const last = encodeMessage({})
  last.writeUInt8(2)
  const created = { templateID: 'base', sandboxID: 'abc', clientID: 'c', envdVersion: '0.6.13', domain: null }
  E2B.checkAnswer('POST', '/v2/sandboxes', 201, created)
  const { origin, bodies } = await replay({
    'POST /v2/sandboxes': { status: 201, body: created },
    'POST /files': [
      { status: 200, body: UPLOADED },
      { status: 401, body: UNKNOWN_USER },
    ],
    'POST /process.Process/Start': {
      status: 200,
      body: Buffer.concat([...ECHO_HI.map((event) => encodeMessage(event)), last]),
    },
  })
  const api = createControlApi({ origin, apiKey: async () => 'e2b_0', timeoutMs: 5000 })
  const { signal } = new AbortController()
  expect(await api.create({ template: 'base', lifeMs: 1000, metadata: { a: 'b' } }, signal)).toMatchObject({
    sandboxID: 'abc',
  })
  expect(E2B.faultOfRequest('POST', '/v2/sandboxes', bodies[0])).toBeNull()
  const envd = createEnvd({ origin, headers: {} }, 5000)
  await envd.upload([{ path: '/home/user/hello.txt', bytes: Buffer.from('hi') }], signal)
  await expect(envd.upload([{ path: '/x', bytes: Buffer.from('hi') }], signal)).rejects.toMatchObject({
    details: { said: expect.stringContaining('unknown user') as string },
  })
  const { readable } = await envd.start(['/bin/echo', 'hi'], 'tag', signal)
  expect(String(await new Response(readable as unknown as ReadableStream).text())).toBe('hi\n')
})
