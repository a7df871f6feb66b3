/**
 * Runs the code that the dashboard copies, in a real shell and with the real TypeScript and Python clients.
 * The API must receive exactly the copied request, whatever its texts contain.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { json } from 'node:stream/consumers'
import { promisify } from 'node:util'
import type { ExecutionRequest } from '@cofferdam/client'
import { isLongTier } from '@cofferdam/embedded/needs'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { SNIPPETS, type Asked } from '../../apps/dashboard/src/parts/copy-as/snippets.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../..')
const KEY = `cfd_"'$(id)\`id\`\\ !!`
const ID = `exe_${'0123456789abcdef'.repeat(2)}`

/** Factor for the number of requests: the long tier sends twice as many as the short tier. */
const THOROUGH = isLongTier() ? 2 : 1

/** What reached the API, in order. */
const arrived: unknown[] = []
async function record(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url } = request
  const body = method === 'POST' ? await json(request) : undefined
  const key = request.headers.authorization?.replace('Bearer ', '')
  arrived.push({ method, url, key, body })
  const result = { execution_id: ID, ending: 'ok', stdout: '' }
  response.setHeader('content-type', 'application/json').end(JSON.stringify(result))
}

let server: Server
let origin = ''
let folder = ''
beforeAll(async () => {
  server = createServer((request, response) => void record(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  folder = await mkdtemp(join(tmpdir(), 'copied-code-'))
  await mkdir(join(folder, 'node_modules/@cofferdam'), { recursive: true })
  await symlink(join(ROOT, 'libs/client'), join(folder, 'node_modules/@cofferdam/client'))
  // Prints its arguments, each ended by NUL, and then its input.
  await writeFile(join(folder, 'curl'), `#!/bin/sh\nprintf '%s\\0' "$@"\ncat\n`, { mode: 0o755 })
})
afterAll(async () => {
  server?.closeAllConnections()
  await new Promise((resolve) => (server === undefined ? resolve(null) : server.close(resolve)))
  await rm(folder, { recursive: true, force: true })
})

/** What breaks quoting in one language or the other, besides arbitrary text. */
const pieces = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    "'",
    '"',
    '\\',
    '`',
    '$',
    '!',
    '\n',
    '\r',
    '\r\n',
    '\t',
    '\0',
    '\x1b[31m',
    '\x7f',
    '\u0085',
    '\u2028',
    '\ud800',
    '\udfff',
    '\u202e',
    '\ufeff',
    'é',
    '漢',
    '👩‍💻',
    '\u{e0041}',
    "'''",
    '"""',
    '*/',
    '//',
    '#',
    '$(touch /tmp/x)',
    '`id`',
    '${HOME}',
    '$COFFERDAM_API_KEY',
    '\nJSON\n',
    'JSON',
    '\nEOF\n',
    '!!',
    '%s',
    '@/etc/passwd',
    '&amp;',
    '</script>',
    "'; exit 1; '",
    '{x}',
    '\\u0027',
    '\\N{DIGIT ONE}',
    '-',
    '\\\n',
  ),
)
const text = fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join(''))
const name = fc.oneof(fc.constantFrom('__proto__', 'constructor', 'PATH', 'a1'), text)
const requests: fc.Arbitrary<ExecutionRequest> = fc.record(
  {
    tenant_id: text,
    agent_id: text,
    program: fc.record(
      {
        type: fc.constant('script' as const),
        language: fc.constantFrom('python', 'javascript', 'typescript', 'bash'),
        source: text,
        argv: fc.array(text, { maxLength: 3 }),
      },
      { requiredKeys: ['type', 'language', 'source'] },
    ),
    stdin: text,
    env: fc.array(fc.tuple(name, text), { maxLength: 3 }).map((all) => Object.fromEntries(all)),
    artifacts: fc.array(text, { maxLength: 2 }),
    limits: fc.record({ hard_timeout_ms: fc.nat(), cpus: fc.double({ min: 0.05, max: 16, noNaN: true }) }),
    session: fc.record({ key: text, must_exist: fc.boolean() }),
    backend: text,
  },
  { requiredKeys: ['tenant_id', 'agent_id', 'program'] },
)
const batches = fc.array(
  fc.oneof(
    { weight: 9, arbitrary: requests.map((one): Asked => ({ run: one })) },
    { weight: 1, arbitrary: fc.constant<Asked>({ read: ID }) },
  ),
  { minLength: 60, maxLength: 60 },
)

/** What the API has to get. A client adds a key of its own, so that the call can be repeated. */
const expected = (asked: Asked, body: (one: ExecutionRequest) => unknown) =>
  'read' in asked
    ? { method: 'GET', url: `/v1/executions/${ID}`, key: KEY, body: undefined }
    : {
        method: 'POST',
        url: expect.stringMatching(/^\/v1\/executions\?wait=/),
        key: KEY,
        body: body(asked.run),
      }

const codeOf = (language: (typeof SNIPPETS)[number]['name'], asked: Asked): string => {
  const snippet = SNIPPETS.find((one) => one.name === language)
  if (snippet === undefined) throw new Error(`no snippet for ${language}`)
  return snippet.of(origin, asked)
}

/** JSON as it comes out of a parser: `__proto__` is an ordinary field. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

it('the command for curl hands it the request, and the shell runs nothing of it', async () => {
  const env = { ...process.env, COFFERDAM_API_KEY: KEY, PATH: `${folder}${delimiter}${process.env['PATH']}` }
  const call = async (asked: Asked): Promise<void> => {
    const file = join(folder, 'pasted.sh')
    await writeFile(file, codeOf('curl', asked))
    const ran = run('sh', [file], { env, cwd: folder })
    ran.child.stdin?.end()
    const { stdout, stderr } = await ran
    expect(stderr).toBe('')
    const args = stdout.split('\0')
    const input = args.pop()
    const auth = ['-sS', '-H', `Authorization: Bearer ${KEY}`]
    if ('read' in asked) {
      expect([args, input]).toEqual([[...auth, `${origin}/v1/executions/${ID}`], ''])
      return
    }
    const type = ['-H', 'Content-Type: application/json', '--data-binary', '@-']
    expect(args).toEqual([...auth, ...type, `${origin}/v1/executions?wait=30s`])
    expect(JSON.parse(input ?? '')).toEqual(plain(asked.run))
  }
  await call({ read: ID })
  await fc.assert(
    fc.asyncProperty(requests, (one) => call({ run: one })),
    { numRuns: 30 * THOROUGH },
  )
})

it('the TypeScript sends the request through the client', async () => {
  await fc.assert(
    fc.asyncProperty(batches, async (batch) => {
      arrived.length = 0
      const files = batch.map((_, index) => `./pasted-${index}.ts`)
      await Promise.all(
        batch.map((asked, index) => writeFile(join(folder, files[index] ?? ''), codeOf('TypeScript', asked))),
      )
      const main = files.map((file) => `await import(${JSON.stringify(file)})\n`).join('')
      await writeFile(join(folder, 'main.mjs'), main)
      const env = { ...process.env, COFFERDAM_API_KEY: KEY }
      const { stderr } = await run(process.execPath, [join(folder, 'main.mjs')], { env })
      expect(stderr).toBe('')
      const withKey = (one: ExecutionRequest) => ({
        ...(plain(one) as object),
        idempotency_key: expect.any(String),
      })
      expect(arrived).toEqual(batch.map((asked) => expected(asked, withKey)))
    }),
    { numRuns: 2 * THOROUGH, endOnFailure: true },
  )
})

it('the Python sends the request through the client', async () => {
  const main = join(folder, 'main.py')
  await writeFile(main, 'import runpy, sys\nfor file in sys.argv[1:]: runpy.run_path(file)\n')
  await fc.assert(
    fc.asyncProperty(batches, async (batch) => {
      arrived.length = 0
      const files = batch.map((_, index) => join(folder, `pasted-${index}.py`))
      await Promise.all(batch.map((asked, index) => writeFile(files[index] ?? '', codeOf('Python', asked))))
      const env = {
        ...process.env,
        COFFERDAM_API_KEY: KEY,
        PYTHONPATH: join(ROOT, 'clients/python'),
        PYTHONDONTWRITEBYTECODE: '1',
      }
      const { stderr } = await run('python3', ['-W', 'error', main, ...files], { env })
      expect(stderr).toBe('')
      const withKey = (one: ExecutionRequest) => ({
        ...(plain(one) as object),
        idempotency_key: expect.any(String),
      })
      expect(arrived).toEqual(batch.map((asked) => expected(asked, withKey)))
    }),
    { numRuns: 2 * THOROUGH, endOnFailure: true },
  )
})
