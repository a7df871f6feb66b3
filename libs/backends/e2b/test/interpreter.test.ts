/**
 * E2B's unmodified client of the code interpreter proves that the double behaves like E2B's code interpreter.
 */
import { Sandbox, type Execution, type Result } from '@e2b/code-interpreter'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startE2bDouble, type E2bDouble } from '../double/e2b-double.ts'

/** An object with every form of result that Python objects can have. */
const SHOWN = `
class Shown:
    def __repr__(self): return 'plain'
    def _repr_html_(self): return '<b>rich</b>'
    def _repr_markdown_(self): return '**rich**'
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_jpeg_(self): return b'\\xff\\xd8'
    def _repr_pdf_(self): return b'%PDF'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': [1, 2]}
    def _repr_javascript_(self): return '1 + 1'
class Bundled:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'bundle', 'e2b/data': {'x': [1]}, 'e2b/chart': {'type': 'line'}, 'text/vnd.own': 'own'}
`

needs('bwrap').describe('the code interpreter of E2B’s double, called by the vendor’s client', () => {
  let double: E2bDouble
  let sandbox: Sandbox

  beforeAll(async () => {
    double = await startE2bDouble()
    sandbox = await Sandbox.create({
      apiKey: double.apiKey,
      apiUrl: double.origin,
      sandboxUrl: double.origin,
      timeoutMs: 600_000,
    })
  })
  afterAll(async () => {
    expect(await sandbox.kill()).toBe(true)
    await double[Symbol.asyncDispose]()
  })

  it('keeps variables from cell to cell, and returns the last expression', async () => {
    const first = await sandbox.runCode("import math\nx = 20\nprint('set'); x")
    expect(first).toMatchObject({ text: '20', logs: { stdout: ['set\n'], stderr: [] } })
    const second = await sandbox.runCode('math.floor(x * 2.1)')
    expect(second.text).toBe('42')
    expect(second.executionCount).toBe((first.executionCount ?? 0) + 1)
    expect((await sandbox.runCode('y = x')).results).toEqual([])
    expect((await sandbox.runCode("'quoted'")).text).toBe('quoted')
    expect((await sandbox.runCode('x;')).results).toEqual([])
  })

  it('returns every form of a result, and what a cell displays beside it', async () => {
    const { results } = await sandbox.runCode(`${SHOWN}\ndisplay(Bundled())\nShown()`)
    const [shown, main] = results as [Result, Result]
    expect(shown).toMatchObject({ text: 'bundle', data: { x: [1] }, chart: { type: 'line' } })
    expect([shown.isMainResult, main.isMainResult]).toEqual([false, true])
    expect(main).toMatchObject({
      text: 'plain',
      html: '<b>rich</b>',
      markdown: '**rich**',
      svg: '<svg/>',
      png: Buffer.from('\x89PNG', 'latin1').toString('base64'),
      jpeg: '/9g=',
      pdf: Buffer.from('%PDF').toString('base64'),
      latex: '$x$',
      json: { a: [1, 2] },
      javascript: '1 + 1',
    })
  })

  it('reports an exception with its traceback, and goes on afterwards', async () => {
    const failed = await sandbox.runCode("kept = 1\nraise ValueError('no')")
    expect(failed.error).toMatchObject({ name: 'ValueError', value: 'no' })
    expect(failed.error?.traceback).toContain("raise ValueError('no')")
    expect((await sandbox.runCode('this is no python')).error?.name).toBe('SyntaxError')
    expect((await sandbox.runCode('kept')).text).toBe('1')
  })

  it('calls back with a cell’s output while it runs', async () => {
    const heard: string[] = []
    // The cell waits until the client has received its first output.
    const code = `
import os, sys, time
print('grüße', flush=True)
while not os.path.exists('/tmp/heard'): time.sleep(0.01)
print('to stderr', file=sys.stderr)
os.system('echo from a child')
1 + 1`
    const execution: Execution = await sandbox.runCode(code, {
      onStdout: async ({ line }) => {
        heard.push(line)
        if (line === 'grüße\n') await sandbox.files.write('/tmp/heard', '')
      },
      onStderr: ({ line }) => void heard.push(line),
      onResult: ({ text }) => void heard.push(`result ${text}`),
      onError: ({ name }) => void heard.push(`error ${name}`),
    })
    expect(heard.toSorted()).toEqual(['from a child\n', 'grüße\n', 'result 2', 'to stderr\n'])
    expect(execution.logs).toEqual({ stdout: ['grüße\n', 'from a child\n'], stderr: ['to stderr\n'] })
  })

  it('gives a cell its environment, and takes it away again', async () => {
    const code = "import os; os.environ.get('GIVEN')"
    expect((await sandbox.runCode(code, { envs: { GIVEN: 'yes' } })).text).toBe('yes')
    expect((await sandbox.runCode(code)).results).toEqual([])
  })

  it('interrupts a cell whose client has gone, and keeps the context', async () => {
    await sandbox.runCode('before = 7')
    await expect(
      sandbox.runCode('import time\nwhile True: time.sleep(0.01)', { timeoutMs: 300 }),
    ).rejects.toMatchObject({ name: 'TimeoutError' })
    expect((await sandbox.runCode('before')).text).toBe('7')
  })

  it('separates contexts, and lists, restarts and removes them', async () => {
    const context = await sandbox.createCodeContext({ cwd: '/tmp' })
    expect(context).toMatchObject({ language: 'python', cwd: '/tmp' })
    await sandbox.runCode('x = 1', { context })
    expect((await sandbox.runCode('import os; (x, os.getcwd())', { context })).text).toBe("(1, '/tmp')")
    expect((await sandbox.runCode("'mine' in dir()", { context })).text).toBe('False')
    expect((await sandbox.listCodeContexts()).map(({ id }) => id)).toContain(context.id)
    await sandbox.restartCodeContext(context)
    expect((await sandbox.runCode("'x' in dir()", { context })).text).toBe('False')
    await sandbox.removeCodeContext(context)
    expect((await sandbox.listCodeContexts()).map(({ id }) => id)).not.toContain(context.id)
    await expect(sandbox.runCode('1', { context })).rejects.toMatchObject({ name: 'NotFoundError' })
  })

  it('reports a kernel that dies in a cell, and starts another', async () => {
    const died = await sandbox.runCode('import os; os._exit(3)')
    expect(died.error?.name).toBe('UnexpectedEndOfExecution')
    expect((await sandbox.runCode('1 + 1')).text).toBe('2')
  })

  it('does not exist in a template without it', async () => {
    const plain = await Sandbox.create('base', {
      apiKey: double.apiKey,
      apiUrl: double.origin,
      sandboxUrl: double.origin,
    })
    await expect(plain.runCode('1')).rejects.toMatchObject({ name: 'TimeoutError' })
    await plain.kill()
  })
})
