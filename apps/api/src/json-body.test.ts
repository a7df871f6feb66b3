import { fastify } from 'fastify'
import { afterAll, describe, expect, it } from 'vitest'
import { acceptJsonBodies, nestsDeeperThan } from './json-body.ts'
import { createBodyReader } from './receive-body.ts'
import { DEFAULT_API_LIMITS } from './route-context.ts'

const app = fastify()
acceptJsonBodies(app, createBodyReader(DEFAULT_API_LIMITS.bodyRate))
app.post('/', async (request) => ({ body: request.body ?? 'nothing' }))
app.setErrorHandler((error, _request, reply) => reply.code(400).send((error as Error).message))
afterAll(() => app.close())

const send = async (payload: string | Buffer) =>
  (await app.inject({ method: 'POST', url: '/', headers: { 'content-type': 'application/json' }, payload }))
    .body

describe('JSON bodies', () => {
  it('are parsed, and an empty body is undefined', async () => {
    expect(await send('{"a":[1,"é"]}')).toBe('{"body":{"a":[1,"é"]}}')
    expect(await send('')).toBe('{"body":"nothing"}')
  })
})

describe.each([
  [
    'broken JSON',
    '{"a": 1,\n  b}',
    'the body is not JSON: expected a key in double quotes at line 2, column 3',
  ],
  ['a cut body', '{"a": "b', 'the body is not JSON: expected the closing quote at line 1, column 9'],
  ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'the body is not valid UTF-8'],
  [
    '__proto__',
    '{"a":{"__proto__":{}}}',
    'the body has a key that poisons prototypes (__proto__ or constructor.prototype)',
  ],
  [
    'escaped __proto__',
    '{"__pr\\u006fto__":{}}',
    'the body has a key that poisons prototypes (__proto__ or constructor.prototype)',
  ],
  [
    'constructor.prototype',
    '{"constructor":{"prototype":{}}}',
    'the body has a key that poisons prototypes (__proto__ or constructor.prototype)',
  ],
  ['endless nesting', '['.repeat(100_000), 'the body is nested more than 32 levels deep'],
])('a body with %s', (_what, payload, message) => {
  it('is refused with the reason and the position', async () => {
    const own = fastify()
    acceptJsonBodies(own, createBodyReader(DEFAULT_API_LIMITS.bodyRate))
    own.post('/', async () => 'taken')
    own.setErrorHandler((error, _request, reply) => reply.code(400).send((error as Error).message))
    const reply = await own.inject({
      method: 'POST',
      url: '/',
      headers: { 'content-type': 'application/json' },
      payload,
    })
    expect(reply.statusCode).toBe(400)
    expect(reply.body).toBe(message)
    await own.close()
  })
})

describe('nestsDeeperThan', () => {
  it.each([
    ['[[[]]]', 3, false],
    ['[[[[]]]]', 3, true],
    ['{"[[[[[[":"]["}', 1, false],
    ['["\\"[[[[", []]', 2, false],
    ['["\\\\", [[]]]', 2, true],
    ['[] [] [] []', 1, false],
  ])('counts only brackets outside of strings in %s', (text, depth, expected) => {
    expect(nestsDeeperThan(Buffer.from(text), depth)).toBe(expected)
  })
})
