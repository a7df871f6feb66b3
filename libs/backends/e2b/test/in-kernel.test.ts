/** in-kernel.py with a misbehaving code interpreter: only a stream with its last frame is a success. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const PYTHON = '/usr/bin/python3'
const SOURCE = readFileSync(new URL('../src/in-kernel.py', import.meta.url), 'utf8')
const END = '{"type": "end_of_execution"}\n'
const line = (frame: object): string => `${JSON.stringify(frame)}\n`
const BEGUN = line({ type: 'number_of_executions', execution_count: 2 })

interface Reply {
  status?: number
  text: string
  /** The connection breaks afterwards instead of ending. */
  breaks?: boolean
  /** Nothing follows, and the stream does not end. */
  hangs?: boolean
  /** Sent in single bytes. */
  inBytes?: boolean
}

describe('a program in a code interpreter’s kernel', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-kernel-'))
  let server: Server
  let replies: Reply[]
  let asked: string[]

  beforeEach(async () => {
    asked = []
    server = createServer((request, response) => {
      void (async () => {
        let body = ''
        for await (const part of request) body += String(part)
        asked.push((JSON.parse(body) as { code: string }).code)
        const { status = 200, text, breaks, hangs, inBytes } = replies.shift() ?? ({ text: END } as Reply)
        response.writeHead(status)
        const bytes = Buffer.from(text)
        const size = inBytes === true ? 1 : Math.max(1, bytes.length)
        for (let at = 0; at < bytes.length; at += size)
          await new Promise((resolve) => response.write(bytes.subarray(at, at + size), resolve))
        if (breaks === true) response.destroy()
        else if (hangs !== true) response.end()
      })()
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  afterEach(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
    rmSync(folder, { recursive: true, force: true })
  })

  /** Runs the script as the agent does, but with another port. Prints the program's value at the end. */
  async function run(program: Reply, tell: Reply = { text: END }) {
    replies = [{ text: END }, program, tell]
    const { port } = server.address() as AddressInfo
    const source = `import os; os.makedirs(${JSON.stringify(folder)}, exist_ok=True); os.chdir(${JSON.stringify(folder)})\n${SOURCE.replace('49999', String(port))}\nprint('value', cofferdam_value)`
    const child = spawn(PYTHON, ['-I', '-c', source], { stdio: 'pipe' })
    const said = { stdout: '', stderr: '' }
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said.stdout += text
      if (program.hangs === true) child.kill('SIGINT')
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said.stderr += text))
    child.stdin.end(JSON.stringify({ source: 'SOURCE', argv: [], env: {} }))
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    return { code: code ?? signal, ...said }
  }

  it('ends as the kernel reports, and its value is read', async () => {
    const text = `${BEGUN}${line({ type: 'keepalive' })}${line({ type: 'result', text: '7', is_main_result: true })}${END}`
    const ran = await run({ text }, { text: `${line({ type: 'stdout', text: '[7]\n' })}${END}` })
    expect(ran).toEqual({ code: 0, stdout: 'value [7]\n', stderr: '' })
    expect(asked).toEqual([expect.any(String), 'SOURCE', expect.stringContaining('_oh[2]')])
  })

  it('reassembles characters that arrive as single bytes, and ignores blank lines', async () => {
    const text = `${BEGUN}\n${line({ type: 'stdout', text: 'é漢😀\n' })}${END}`
    expect(await run({ text, inBytes: true })).toEqual({
      code: 0,
      stdout: 'é漢😀\nvalue None\n',
      stderr: '',
    })
  })

  it('accepts a last line without newline, and blank lines with a carriage return', async () => {
    const text = `${BEGUN}\r\n${line({ type: 'stdout', text: 'out\n' })}${END.trimEnd()}`
    expect(await run({ text })).toEqual({ code: 0, stdout: 'out\nvalue None\n', stderr: '' })
  })

  it('has no value if the kernel does not name the cell', async () => {
    const text = `${line({ type: 'result', text: '7', is_main_result: true })}${END}`
    expect(await run({ text })).toEqual({ code: 0, stdout: 'value None\n', stderr: '' })
    expect(asked).toEqual([expect.any(String), 'SOURCE'])
  })

  it.each([
    [{ name: 'ValueError', value: 'x', traceback: null }, 1, 'ValueError: x\n'],
    [{ name: 'ValueError', value: 'x' }, 1, 'ValueError: x\n'],
    [{ name: 'SystemExit', value: null, traceback: null }, 0, ''],
  ])('shows the parts of an error that it received: %j', async (error, code, stderr) => {
    const ran = await run({ text: `${BEGUN}${line({ type: 'error', ...error })}${END}` })
    expect([ran.code, ran.stderr]).toEqual([code, stderr])
  })

  it('fails if its stream is cut anywhere, and is never sent again', async () => {
    const output = line({ type: 'stdout', text: 'out\n' })
    for (const [text, breaks] of [
      [`${BEGUN}${output.slice(0, -5)}`, true],
      [`${BEGUN}${output}${END.slice(0, -2)}`, false],
      [`${BEGUN}${output.trimEnd()}`, false],
      [`${BEGUN}${output}`, true],
      [`${BEGUN}${output}`, false],
      ['', true],
    ] as const) {
      asked = []
      const ran = await run({ text, breaks })
      expect([ran.code, ran.stderr]).toEqual(['SIGKILL', expect.stringContaining('broke off')])
      expect(asked.filter((code) => code === 'SOURCE')).toHaveLength(1)
    }
  })

  it('fails if the kernel reports its end, whatever follows', async () => {
    const ended = line({ type: 'unexpected_end_of_execution' })
    const ran = await run({ text: `${BEGUN}${ended}${END}` })
    expect([ran.code, ran.stderr]).toEqual(['SIGKILL', 'the kernel ended\n'])
  })

  it('disconnects from a kernel that closed the interrupt socket, and waits until it is free', async () => {
    const ran = await run({ text: `${BEGUN}${line({ type: 'stdout', text: 'up\n' })}`, hangs: true })
    expect(ran).toEqual({ code: 130, stdout: 'up\n', stderr: '' })
    expect(asked).toEqual([expect.any(String), 'SOURCE', "exec('', {})"])
  })

  it('fails if it is refused or receives invalid frames', async () => {
    const refused = await run({ status: 404, text: 'Context not found' })
    expect([refused.code, refused.stderr]).toEqual(['SIGKILL', 'the code interpreter answered 404\n'])
    for (const text of ['no json\n', '[]\n', '{}\n', `${line({ type: 'stdout' })}${END}`])
      expect((await run({ text })).code).toBe('SIGKILL')
  })
})
