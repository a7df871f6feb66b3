/** Results of @cofferdam/tools, without any SDK, against a real fleet. */
import { createClient } from '@cofferdam/client'
import { needs } from '@cofferdam/embedded/needs'
import { textForModel } from '@cofferdam/tools'
import { afterAll, beforeAll, expect } from 'vitest'
import { DAY_MS, untilWindowLasts } from '../../libs/embedded/src/window-end.ts'
import { openToolScene, python, type ToolScene } from './tool-scene.ts'

const onProcess = needs('process')
const inSession = needs('process-namespaces')
let scene: ToolScene
beforeAll(async () => {
  scene = await openToolScene()
})
afterAll(async () => scene?.[Symbol.asyncDispose]())

onProcess.it('runs programs of every language with files', async () => {
  const files = [{ path: 'in/a.txt', content: 'äb' }]
  const programs = {
    python: 'print(open("in/a.txt").read())',
    javascript: 'console.log(require("fs").readFileSync("in/a.txt", "utf8"))',
    typescript:
      'import fs from "node:fs"\nconst text: string = fs.readFileSync("in/a.txt", "utf8")\nconsole.log(text)',
    bash: 'cat in/a.txt; echo',
  }
  for (const [language, source] of Object.entries(programs)) {
    const result = await scene.toolOf('acme').run({ language, source, files })
    expect(result, language).toMatchObject({ status: 'ended', ok: true, ending: 'ok', stdout: 'äb\n' })
  }
})

onProcess.it('returns a program that fails as a value, with the end of its traceback', async () => {
  const tool = scene.toolOf('acme', { maxChars: 3000 })
  const source = 'import sys\nsys.stderr.write("noise\\n" * 2000)\nraise ValueError("no such colour")'
  const result = await tool.run(python(source))
  expect(result).toMatchObject({ status: 'ended', ok: false, ending: 'error', exit_code: 1 })
  const text = textForModel(result, { maxChars: 3000 })
  expect(text.length).toBeLessThanOrEqual(3000)
  expect(text).toMatch(/^Ended: error, exit code 1/)
  expect(text).toMatch(/line 3, in <module>\n(.*\n)*ValueError: no such colour$/)
})

onProcess.it('has head and tail of an output that is longer than the result', async () => {
  const source = 'print("first")\nfor n in range(40_000): print(n, "ä" * 10)\nprint("last")'
  const result = await scene.toolOf('acme').run(python(source))
  expect(result.stdout.startsWith('first\n0 ä')).toBe(true)
  expect(result.stdout_tail?.endsWith('39999 ääääääääää\nlast\n')).toBe(true)
  expect(result.stdout.length + (result.stdout_tail?.length ?? 0)).toBeLessThan(40_000)
  const [part] = scene.toolOf('acme').forModel(result)
  const text = part?.type === 'text' ? part.text : ''
  expect(text.length).toBeLessThanOrEqual(20_000)
  expect(text.trimEnd().endsWith('last')).toBe(true)
  expect(text).toContain(`stdout, ${result.stdout_bytes} bytes`)
  const whole = await scene.client('acme').executions.output(result.execution_id ?? '', 'stdout')
  expect(whole.length).toBeGreaterThan(400_000)
})

onProcess.it('shows hostile output without what hides or moves words', async () => {
  const source = String.raw`import sys
out = sys.stdout.buffer
out.write(b"\x1b[2J\x1b]0;title\x07plain\r\n\xff\xfe\x00")
out.write("\u202eevil\U000E0041".encode())
for _ in range(20): out.write(b"x" * 1024 * 1024)`
  const result = await scene.toolOf('acme').run(python(source))
  const text = textForModel(result)
  expect(text).toContain('plain\n')
  // oxlint-disable-next-line no-control-regex
  expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u{e0000}-\u{e007f}]/u)
  expect(text.length).toBeLessThanOrEqual(20_000)
  expect(JSON.stringify(result).length).toBeLessThan(200_000)
})

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const PLOT = `import base64, os
open("plot.png", "wb").write(base64.b64decode("${PNG}"))
open("fake.png", "w").write("no image")
os.makedirs("out", exist_ok=True)
open("out/data.csv", "w").write("1,2")`

onProcess.it('gives images as images and names the other files', async () => {
  const tool = scene.toolOf('acme')
  const result = await tool.run(python(PLOT))
  expect(result.images).toEqual([{ path: 'plot.png', media_type: 'image/png', data: PNG }])
  expect(result.artifacts.map(({ path }) => path).toSorted()).toEqual([
    'fake.png',
    'out/data.csv',
    'plot.png',
  ])
  const parts = tool.forModel(result)
  expect(parts.slice(1)).toEqual([{ type: 'image', mediaType: 'image/png', data: PNG, name: 'plot.png' }])
})

inSession.it('keeps variables in a session, and shows an image once', async () => {
  const tool = scene.toolOf('acme', { session: ({ conversation }) => conversation })
  const call = { conversation: 'user 7 / thread 3' }
  const first = await tool.run(python(`n = 41\n${PLOT}`), call)
  expect([first.session?.fresh, first.images.length]).toEqual([true, 1])
  const second = await tool.run(python('print(n + 1)'), call)
  expect([second.stdout, second.session?.fresh, second.images]).toEqual(['42\n', false, []])
  const other = await tool.run(python('print(n)'), { conversation: 'user 7 / thread 4' })
  expect([other.ok, other.session?.fresh]).toEqual([false, true])
})

onProcess.it('tells a cap that was reached with the moment to come back', async () => {
  // The cap counts by UTC day, so the day must not end during the test.
  await untilWindowLasts(DAY_MS, 60_000)
  const tool = scene.toolOf('spent')
  expect((await tool.run(python('1'))).ok).toBe(true)
  const refused = await tool.run(python('1'))
  const { problem } = refused
  expect(refused).toMatchObject({ status: 'refused', ending: 'cap_exceeded', problem: { retry: 'later' } })
  expect(problem?.retry_at).toMatch(/T00:00:00/)
  expect(textForModel(refused)).toContain(`Do not repeat the call before ${problem?.retry_at} (in `)
  const switchedOff = await scene.toolOf('closed').run(python('1'))
  expect(switchedOff).toMatchObject({ status: 'refused', problem: { code: 'cap_exceeded', retry: 'never' } })
})

onProcess.it('tells a policy, bad input and a wrong key as refusals', async () => {
  const network = await scene.toolOf('offline', { network: 'public' }).run(python('1'))
  expect(network).toMatchObject({
    status: 'refused',
    problem: { code: 'network_not_allowed', retry: 'never' },
  })
  const unknown = await scene.toolOf('offline', { templateId: 'none' }).run(python('1'))
  expect(unknown).toMatchObject({ status: 'refused', problem: { code: 'not_requested', retry: 'never' } })
  const input = await scene.toolOf('acme').run({ language: 'cobol' })
  expect(input).toMatchObject({ status: 'refused', problem: { code: 'invalid_input', retry: 'never' } })
  await using stranger = createClient({ baseUrl: scene.url, apiKey: `cfd_${'0'.repeat(40)}` })
  const problems: unknown[] = []
  const onProblem = (error: unknown): void => void problems.push(error)
  const wrongKey = await scene.toolOf('acme', { client: stranger, onProblem }).run(python('1'))
  expect(wrongKey).toMatchObject({ status: 'refused', problem: { code: 'unauthenticated', retry: 'never' } })
  expect(problems).toHaveLength(1)
})

onProcess.it('never throws when the API does not answer or a callback does', async () => {
  await using nobody = createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'cfd_0', retryForMs: 0 })
  const away = await scene.toolOf('acme', { client: nobody }).run(python('1'))
  expect(away).toMatchObject({ status: 'failed', problem: { code: 'queue_unavailable', retry: 'later' } })
  const tool = scene.toolOf('acme', {
    onProblem: () => {
      throw new Error('a logger that fails')
    },
  })
  const onEvent = (): never => {
    throw new Error('a user interface that fails')
  }
  expect(await tool.run(python('print(1)'), { onEvent })).toMatchObject({ ok: true, stdout: '1\n' })
})
