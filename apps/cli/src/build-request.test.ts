import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildRequest, environmentOf, languageOf, networkOf, copyOf } from './build-request.ts'
import { command } from './commands/enqueue.ts'
import { parseCommandLine } from './parse-command-line.ts'

let cwd = ''
beforeAll(() => {
  cwd = mkdtempSync(path.join(tmpdir(), 'cofferdam-cli-'))
  writeFileSync(path.join(cwd, 'a.py'), 'print(1)\n')
  writeFileSync(path.join(cwd, 'data.bin'), Buffer.from([0, 255]))
  writeFileSync(path.join(cwd, 'in.txt'), 'hello\n')
})
afterAll(() => rmSync(cwd, { recursive: true, force: true }))

const build = (args: string[], stdin = '') =>
  buildRequest(parseCommandLine('enqueue', command, args), {
    cwd,
    stdin: Readable.from([Buffer.from(stdin)]),
  })

describe('languageOf', () => {
  it.each([
    ['x.py', '', 'python'],
    ['x.mjs', '', 'javascript'],
    ['x.TS', '', 'typescript'],
    ['x.bash', '', 'bash'],
    ['x', '#!/usr/bin/env python3\n', 'python'],
    ['x', '#!/bin/sh -e\n', 'bash'],
    ['-', '#!/usr/bin/env -S node --test\n', 'javascript'],
  ])('of the file %s that begins with %j is %s', (file, source, language) => {
    expect(languageOf(file, source, undefined)).toBe(language)
  })

  it('is the language of the flag, whatever the file name', () => {
    expect(languageOf('x.py', '', 'bash')).toBe('bash')
  })

  it('is required when neither the flag, the name nor the first line tells it', () => {
    expect(() => languageOf('-', 'print(1)', undefined)).toThrow('The language of standard input is unknown')
    expect(() => languageOf('x.py', '', 'pyhton')).toThrow('Did you mean python?')
  })
})

describe('copyOf', () => {
  it.each([
    ['data.csv', { from: 'data.csv', to: 'data.csv' }],
    ['./in/data.csv', { from: './in/data.csv', to: 'in/data.csv' }],
    ['../other/data.csv', { from: '../other/data.csv', to: 'data.csv' }],
    ['/etc/hosts', { from: '/etc/hosts', to: 'hosts' }],
    ['/etc/hosts=in/h', { from: '/etc/hosts', to: 'in/h' }],
  ])('maps %s to its path in the sandbox', (word, place) => {
    expect(copyOf(word)).toEqual(place)
  })
})

describe('environmentOf and networkOf', () => {
  it('keep everything after the first equals sign of a variable', () => {
    expect(environmentOf(['A=1', 'B=x=y', 'C='])).toEqual({ A: '1', B: 'x=y', C: '' })
    expect(() => environmentOf(['A'])).toThrow('--env expects NAME=VALUE, got "A".')
    expect(() => environmentOf(['=x'])).toThrow('--env expects NAME=VALUE')
  })

  it('accept none, public, and a list of hosts', () => {
    expect(networkOf(undefined)).toBe('none')
    expect(networkOf('public')).toBe('public')
    expect(networkOf('pypi.org, example.com:8080')).toEqual({ allow: ['pypi.org', 'example.com:8080'] })
  })
})

describe('buildRequest', () => {
  it('reads program, files and standard input, and fills in the defaults of the contract', async () => {
    const request = await build([
      'a.py',
      '--file',
      'data.bin=in/d',
      '--stdin',
      'in.txt',
      '-e',
      'K=v',
      '-t',
      '2m',
      '--',
      '-x',
      'y',
    ])
    expect(request).toMatchObject({
      tenant_id: 'demo',
      agent_id: 'cli',
      program: { type: 'script', language: 'python', source: 'print(1)\n', argv: ['-x', 'y'] },
      files: [{ path: 'in/d', content_base64: 'AP8=' }],
      stdin: 'hello\n',
      env: { K: 'v' },
      limits: { soft_timeout_ms: 120_000, hard_timeout_ms: 125_000, memory_mib: 256 },
      network: 'none',
      backend: 'auto',
      lane: 'interactive',
    })
  })

  it('adds the session, its scope and the limits from the flags', async () => {
    expect(
      await build(['a.py', '--session', 'chat-1', '--preload', 'data', '--cpu-time', '10s']),
    ).toMatchObject({
      session: { key: 'chat-1', scope: 'files' },
      preload: 'data',
      limits: { cpu_time_ms: 10_000 },
    })
    expect(await build(['a.py', '-s', 'chat-1', '--session-scope', 'interpreter'])).toMatchObject({
      session: { key: 'chat-1', scope: 'interpreter' },
    })
    expect(await build(['a.py', '-s', 'chat-1', '--session-must-exist'])).toMatchObject({
      session: { key: 'chat-1', must_exist: true },
    })
    await expect(build(['a.py', '--session-must-exist'])).rejects.toThrow('needs --session KEY')
    await expect(build(['a.py', '--session-scope', 'files'])).rejects.toThrow(
      '--session-scope needs --session',
    )
  })

  it('reads the program from standard input', async () => {
    const request = await build(['-', '-l', 'bash'], 'echo hi')
    expect(request.program).toEqual({ type: 'script', language: 'bash', source: 'echo hi' })
  })

  it.each([
    [['nowhere.py'], 'nowhere.py does not exist.'],
    [['.'], '. is a directory.'],
    [['-', '-l', 'bash', '--stdin', '-'], 'Standard input cannot be both the program and its input'],
    [['a.py', '--lane', 'fast'], 'lane: '],
    [['a.py', '--tenant', 'a b'], 'tenant_id: expected 1-128 letters'],
    [['a.py', '--memory', '1'], 'limits.memory_mib: '],
    [['a.py', '--file', 'in.txt=../x'], 'files.0.path: expected a relative path'],
  ])('refuses %j', async (args, message) => {
    await expect(build(args)).rejects.toThrow(message)
  })
})
