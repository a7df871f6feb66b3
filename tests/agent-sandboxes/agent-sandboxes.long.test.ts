/**
 * Each agent SDK with its offline model works in a sandbox of ours, on a real fleet. The programs in `agents`
 * tell what their agents saw. Each of them is a separate process, so a test can continue a session in another
 * process.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { SURROUNDINGS } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it as anywhere } from 'vitest'
import { serveFleet, type ServedFleet } from './fleet.ts'

const run = promisify(execFile)
const FOLDER = import.meta.dirname
const ROOT = path.join(FOLDER, '../..')
const EXAMPLES = ['ai-sdk-sandbox.ts', 'openai-agents-sandbox.ts', 'mastra-sandbox.ts']
const PATIENT = { timeout: 600_000 }
const { it } = needs('process-namespaces')

let served: ServedFleet
let project = ''
beforeAll(async () => {
  if (!existsSync(path.join(FOLDER, 'node_modules/.package-lock.json')))
    await run('npm', ['ci', '--loglevel=error'], { cwd: FOLDER })
  project = await exampleProject()
  served = await serveFleet()
}, 900_000)
afterAll(async () => {
  await served?.[Symbol.asyncDispose]()
  await rm(project, { recursive: true, force: true })
})

/** A project with the examples, the SDKs and our packages, as a user has it. */
async function exampleProject(): Promise<string> {
  const project = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-agents-'))
  await mkdir(path.join(project, 'node_modules'))
  for (const [folder, only] of [
    [path.join(FOLDER, 'node_modules'), /^[^.]/],
    [path.join(ROOT, 'node_modules'), /^@cofferdam$/],
  ] as const)
    for (const name of (await readdir(folder)).filter((one) => only.test(one)))
      await symlink(path.join(folder, name), path.join(project, 'node_modules', name))
  await writeFile(path.join(project, 'package.json'), JSON.stringify({ type: 'module' }))
  const options = { typeRoots: [path.join(ROOT, 'node_modules/@types')] }
  const config = { extends: path.join(ROOT, 'tsconfig.json'), compilerOptions: options }
  const include = EXAMPLES.map((name) => `examples/agents/${name}`)
  await writeFile(path.join(project, 'tsconfig.json'), JSON.stringify({ ...config, include, exclude: [] }))
  await cp(path.join(ROOT, 'examples'), path.join(project, 'examples'), { recursive: true })
  return project
}

/** What a program of `agents` told. */
async function told(name: string, ...args: string[]): Promise<Record<string, unknown>> {
  const env = { ...process.env, COFFERDAM_URL: served.api.url, COFFERDAM_API_KEY: served.apiKey }
  const program = path.join(FOLDER, 'agents', name)
  const { stdout } = await run(process.execPath, [program, ...args], { env, timeout: 500_000 })
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, unknown>
}
const says = (text: string) => expect.stringContaining(text) as string
const rejected = (text: string) => ({ rejected: says(text) })
const OUTSIDE = `is not in the work folder ${SURROUNDINGS.workFolder}`
const GONE = rejected('its files are gone')
const SUM = 'import sys\nprint(sum(map(int, sys.argv[1:])))\n'

anywhere('our sandboxes have the types of the SDKs, and the examples are correct', PATIENT, async () => {
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
  for (const folder of [FOLDER, project]) {
    const checked = run(process.execPath, [tsc, '-p', folder])
    const { stdout } = await checked.catch((error: unknown) => error as { stdout: string })
    expect(stdout).toBe('')
  }
})

it('an agent of the AI SDK works in a session, and another process continues in it', PATIENT, async () => {
  const { key, ...seen } = await told('ai-sdk.ts')
  expect(seen).toEqual({
    results: [
      'written',
      { exitCode: 0, stdout: '6\n', stderr: '' },
      '6\n',
      'print(sum(map(int, sys.argv[1:])))\n',
      { exitCode: 1, stdout: '', stderr: says('ModuleNotFoundError') },
      null,
      rejected(OUTSIDE),
      'done',
    ],
    aborted: rejected('aborted due to timeout'),
    killed: ['ready\n', expect.toSatisfy((code: number) => code > 128)],
    spawned: ['', 'cat: /etc/none: No such file or directory\n', { exitCode: 4 }],
    stdin: rejected('no open stdin'),
    bytes: '\0ÿ',
    absent: [null, null, null, false],
    folder: [
      'directory',
      [{ name: 'er', type: 'directory' }],
      rejected('Is a directory'),
      rejected('is a folder'),
      rejected('is not a folder'),
    ],
    deleted: true,
  })
  expect(await told('ai-sdk.ts', String(key))).toEqual({ kept: SUM, gone: GONE })
})

it(
  'a SandboxAgent of @openai/agents works in a session, and another process continues in it',
  PATIENT,
  async () => {
    const { state, ...seen } = await told('openai-agents.ts')
    const ended = (code: number, output: string) =>
      says(`Process exited with code ${code}\nOutput:\n${output}`)
    const image = {
      data: { 0: 137, 1: 80, 2: 78, 3: 71, 4: 13, 5: 10, 6: 26, 7: 10 },
      mediaType: 'image/png',
    }
    expect(seen).toEqual({
      results: [
        '',
        ended(0, '6\n'),
        '',
        ended(7, '42\nanswer.py\n'),
        ended(1, 'cat: absent.txt'),
        expect.stringMatching(
          /Original token count: 974\nOutput:\n1\n2\n[^]*\.\.\.924 tokens truncated\.\.\.[^]*\n1000\n$/,
        ),
        says('no terminal'),
        says(OUTSIDE),
        says('There is no file absent.py'),
        '',
        says('was not found'),
        ended(0, ''),
        { type: 'image', image },
        says('is not a supported image file'),
        'done',
      ],
      stopped: rejected('was stopped'),
      more: [
        [{ name: 'run.sh', path: 'more/run.sh', type: 'file' }],
        3,
        'import',
        false,
        true,
        rejected('File not found: none'),
        rejected('one user'),
        rejected('git_repo'),
      ],
      owned: [ended(0, ''), ended(0, ''), ended(0, ''), ended(0, 'note\n'), ['conversation-1', 'this']],
      users: rejected('users and groups'),
    })
    expect(await told('openai-agents.ts', JSON.stringify(state))).toEqual({
      results: [ended(0, 'import sys\nprint(42)hello\n'), 'done'],
      gone: GONE,
    })
  },
)

it(
  'the tools of a Mastra workspace work in a session, and another process continues in it',
  PATIENT,
  async () => {
    const { id, instructions, ...seen } = await told('mastra.ts')
    expect(instructions).toContain(SURROUNDINGS.workFolder)
    expect(seen).toEqual({
      tools: ['mastra_workspace_execute_command'],
      results: [
        '6\n',
        '6\nhello\n',
        expect.stringMatching(/ModuleNotFoundError[^]*Exit code: 1$/),
        expect.stringMatching(/begun[^]*deadline[^]*Exit code: 124$/),
        expect.stringMatching(/No such file[^]*Exit code: 1$/),
        says('aborted due to timeout'),
      ],
      quoted: "it's|$HOME||",
      streamed: [true, '1\n2\n3\n', 'number'],
      retained: {
        success: true,
        exitCode: 0,
        stdout: 'ü',
        stderr: 'ps\n',
        timedOut: false,
        killed: false,
        stdoutTruncated: true,
        stderrTruncated: true,
        stdoutDroppedBytes: 4,
        stderrDroppedBytes: 2,
        command: "printf '%s' 'äöü'; echo oops >&2",
      },
      timed: { exitCode: 124, timedOut: true, killed: true },
      mode: rejected('between 0o001 and 0o777'),
      outside: rejected(OUTSIDE),
      info: ['running', 'process', true],
    })
    expect(await told('mastra.ts', String(id))).toEqual({
      how: 'connected',
      kept: SUM,
      status: 'destroyed',
      gone: rejected('is destroyed'),
    })
  },
)

it('the examples print what their headers say', PATIENT, async () => {
  await served.fleet.createTenant('demo')
  const apiKey = (await served.fleet.store.keys.create({ tenant_id: 'demo' }, 'test')).key
  const env = { ...process.env, COFFERDAM_URL: served.api.url, COFFERDAM_API_KEY: apiKey }
  for (const name of EXAMPLES) {
    const file = path.join(project, 'examples/agents', name)
    const [, block = ''] = /^ \* Output:\n((?: \* {3}.*\n)+)/m.exec(await readFile(file, 'utf8')) ?? []
    const { stdout } = await run(process.execPath, [file], { env, timeout: 500_000 })
    expect(stdout, name).toBe(block.replaceAll(/^ \* {3}/gm, ''))
  }
})
