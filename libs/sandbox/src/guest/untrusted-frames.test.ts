/**
 * The host's end with a guest that lies about progress and copies of files. The guest is a pair of streams.
 */
import { PassThrough } from 'node:stream'
import type { Program, Progress } from '@cofferdam/contract'
import { describe, expect, it, vi } from 'vitest'
import { mentionsReports, parseReport } from './guest-run.ts'
import { createGuestSession } from './session.ts'

const READY = {
  protocol: 1,
  agentPython: '3.11.2',
  languages: { python: '3.11.2' },
  cgroup: null,
  uidSplit: false,
  ownsPids: true,
  bootMs: 9,
}
const PROGRAM: Program = { type: 'script', language: 'python', source: 'import cofferdam' }
const PLAIN: Program = { type: 'script', language: 'python', source: 'print(1)' }
const ASK = { globs: ['checkpoint/**'], maxFiles: 2, maxBytes: 10 }

function guest(features: string[] = ['reports', 'backups']) {
  const readable = new PassThrough()
  const writable = new PassThrough()
  const chunks: Buffer[] = []
  writable.on('data', (chunk: Buffer) => chunks.push(chunk))
  const closed = vi.fn()
  const session = createGuestSession({ readable, writable, onClosed: closed })
  const say = (type: string, body: Uint8Array | string): void => {
    const bytes = Buffer.from(body)
    const head = Buffer.alloc(5)
    head.write(type, 'latin1')
    head.writeUInt32LE(bytes.length, 1)
    readable.write(Buffer.concat([head, bytes]))
  }
  say('R', JSON.stringify({ ...READY, features }))
  const heard: Progress[] = []
  const run = (program: Program): void => {
    const running = session.run(
      program,
      {
        onOutput: () => undefined,
        onProgress: (progress) => void heard.push(progress),
        maxOutputBytes: { stdout: 10, stderr: 10 },
        signal: new AbortController().signal,
      },
      {},
    )
    running.catch(() => undefined)
  }
  return { session, say, closed, heard, run, sent: () => Buffer.concat(chunks).toString('latin1') }
}

const lostBy = async (closed: ReturnType<typeof vi.fn>): Promise<void> => {
  await vi.waitFor(() => expect(closed).toHaveBeenCalledOnce(), 15_000)
  expect(closed.mock.calls[0]?.[0]).toMatchObject({ code: 'protocol_violation' })
}

describe('a guest that reports progress', () => {
  it('is heard while a program runs that may report', async () => {
    const { run, say, heard, sent } = guest()
    run(PROGRAM)
    await vi.waitFor(() => expect(sent()).toContain('"report":true'), 15_000)
    say('U', '0.5 half')
    say('U', 'nonsense')
    await vi.waitFor(() => expect(heard).toEqual([{ fraction: 0.5, message: 'half' }]), 15_000)
  })

  it('is destroyed for a report of a program that may not report', async () => {
    const { run, say, closed, sent } = guest()
    run(PLAIN)
    await vi.waitFor(() => expect(sent()).toContain('"op":"run"'), 15_000)
    expect(sent()).not.toContain('report')
    say('U', '0.5 half')
    await lostBy(closed)
  })

  it('is not asked for reports if it does not support them', async () => {
    const { run, sent } = guest([])
    run(PROGRAM)
    await vi.waitFor(() => expect(sent()).toContain('"op":"run"'), 15_000)
    expect(sent()).not.toContain('report')
  })

  it.each([
    ['without a run', false, '0.5'],
    ['above the bound', true, `0.5 ${'x'.repeat(2000)}`],
  ])('is destroyed for a report %s', async (_what, runs, report) => {
    const { run, say, closed, sent } = guest()
    if (runs) {
      run(PROGRAM)
      await vi.waitFor(() => expect(sent()).toContain('"report":true'), 15_000)
    }
    say('U', report)
    await lostBy(closed)
  })
})

describe('a guest that is asked for copies of files', () => {
  it('returns complete files, without withdrawn ones and paths outside the folder', async () => {
    const { session, say } = guest()
    const files = session.snapshot({ ...ASK, maxFiles: 4 })
    for (const part of [
      'hcheckpoint/a',
      'dab',
      'dc',
      'hgone',
      'dxx',
      'x',
      'h../etc/passwd',
      'droot',
      'hcheckpoint/empty',
      'e',
    ])
      say('B', part)
    expect((await files).map(({ path, bytes }) => [path, Buffer.from(bytes).toString()])).toEqual([
      ['checkpoint/a', 'abc'],
      ['checkpoint/empty', ''],
    ])
  })

  it.each([
    ['more bytes than asked for', ['ha', 'd0123456789', 'd0']],
    ['more files than asked for', ['ha', 'hb', 'hc']],
    ['bytes of no file', ['dx']],
    ['a piece without bytes', ['ha', 'd']],
    ['another shape', ['?']],
    ['a path without end', [`h${'x'.repeat(5000)}`]],
  ])('is destroyed for %s', async (_what, parts) => {
    const { session, say, closed } = guest()
    const files = session.snapshot(ASK)
    files.catch(() => undefined)
    for (const part of parts) say('B', part)
    await lostBy(closed)
    await expect(files).rejects.toMatchObject({ code: 'protocol_violation' })
  })

  it('is destroyed for unrequested copies, and for data after their end', async () => {
    const unasked = guest()
    unasked.say('B', 'ha')
    await lostBy(unasked.closed)
    const late = guest()
    const files = late.session.snapshot(ASK)
    late.say('B', 'e')
    expect(await files).toEqual([])
    late.say('B', 'e')
    await lostBy(late.closed)
  })

  it('refuses a second concurrent request, and any request to an older agent', async () => {
    const { session } = guest()
    const first = session.snapshot(ASK)
    first.catch(() => undefined)
    await expect(session.snapshot(ASK)).rejects.toMatchObject({ code: 'conflict' })
    session.close()
    await expect(first).rejects.toMatchObject({ code: 'sandbox_lost' })
    await expect(guest([]).session.snapshot(ASK)).rejects.toMatchObject({ code: 'capability_missing' })
  })
})

describe('a progress report', () => {
  it.each([
    ['0', { fraction: 0, message: '' }],
    ['.5 x', { fraction: 0.5, message: 'x' }],
    ['0.400000 fit ting', { fraction: 0.4, message: 'fit ting' }],
    ['12 far', { fraction: 1, message: 'far' }],
    ['1 \u001b[31mred\u0007\u2028end', { fraction: 1, message: '[31mred end' }],
    ['-1 x', null],
    ['1e999', null],
    ['0x1', null],
    ['NaN', null],
    ['', null],
  ])('in the frame %j is read as %j', (text, expected) => {
    expect(parseReport(Buffer.from(text))).toEqual(expected)
  })

  it('is allowed for programs with the word in their text or in a file', () => {
    expect(mentionsReports(PLAIN, [])).toBe(false)
    expect(
      mentionsReports(PLAIN, [{ path: 'a.py', bytes: Buffer.from('x'.repeat(100) + 'cofferdam') }]),
    ).toBe(true)
    expect(mentionsReports(PROGRAM, [])).toBe(true)
    expect(mentionsReports({ type: 'command', shell: 'cofferdam-progress 1' }, [])).toBe(true)
    expect(mentionsReports({ type: 'command', argv: ['cofferdam-progress', '1'] }, [])).toBe(true)
  })
})
