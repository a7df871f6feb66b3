/** If a program's call to AgentCore fails, the program runs once or not at all. */
import type { Program } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import type { Fault } from '../double/faults.ts'
import { toolCall } from '../double/invoke.ts'
import { callTool } from '../double/sessions.ts'
import { describeAgentcore, invoke, run } from './at-double.ts'
import { python } from '@cofferdam/backend-remote/testing'

/** Complete results of a tool without the answer of our program in the session (cell.py). */
const UNANSWERED = {
  empty: { content: [], structuredContent: { stdout: '', stderr: '', exitCode: 0 } },
  sentence: { content: [{ type: 'text', text: 'Tool execution failed: internal error' }], isError: true },
}
/** Leaves one mark per run. */
const MARK = python('open("effect", "a").write("x")\nprint("done")')
const SAME_IN = {
  javascript: `require('node:fs').appendFileSync('effect', 'x'); console.log('done')`,
  bash: 'printf x >> effect; echo done',
}

describeAgentcore('a program whose call to agentcore fails', (at) => {
  const { open, backend, effect } = at

  it.each<[string, Fault]>([
    ['is throttled twice', invoke('http', { error: 'ThrottlingException', times: 2 })],
    ['is throttled by its first frame', invoke('exception', { error: 'throttlingException' })],
    ['fails at the service before it began', invoke('http', { error: 'InternalServerException' })],
    ['loses its connection before it ran', invoke('cut-before')],
    ['loses its connection after it ran', invoke('cut-after')],
    ['fails by its first frame', invoke('exception', { error: 'internalServerException' })],
    ['meets a conflict', invoke('http', { error: 'ConflictException' })],
    ['is cut within a frame', invoke('truncated')],
    ['gets an empty stream', invoke('empty')],
    ['gets an exception behind an event', invoke('exception', { after: 1 })],
    ['gets an error frame behind two events', invoke('error-frame', { error: 'Whatever', after: 2 })],
    ['is refused by its first frame', invoke('exception', { error: 'validationException' })],
    [
      'has run when its first frame refuses it',
      invoke('exception', { error: 'validationException', runs: true }),
    ],
    [
      'has run when its first frame throttles it',
      invoke('exception', { error: 'throttlingException', runs: true, times: 8 }),
    ],
    [
      'has run when its first frame knows no session',
      invoke('exception', { error: 'resourceNotFoundException', runs: true }),
    ],
    ['is refused behind an event', invoke('exception', { error: 'accessDeniedException', after: 1 })],
    ['gets its result and no end of the stream', invoke('endless')],
    ['gets an exception that no model has', invoke('exception', { error: 'newException', after: 1 })],
    ['gets its result twice', invoke('duplicate')],
    ['gets its result growing', invoke('growing')],
    ['gets its result in two parts', invoke('split')],
    ['gets an event of an unknown type', invoke('unknown-event')],
    ['gets its answer cut in the text', invoke('cut-text')],
    ['gets nothing with exit code 0', invoke('result', { result: UNANSWERED.empty, runs: true })],
    ['gets a sentence of the service', invoke('result', { result: UNANSWERED.sentence, runs: true })],
    ['comes late', invoke('delay', { ms: 200 })],
  ])('runs once and reports its exit if it %s', async (_what, fault) => {
    const sandbox = await open(MARK)
    at.double.fault(fault)
    const { exit, stdout } = await run(sandbox, MARK)
    expect({ code: exit.exitCode, stdout, effect: effect(sandbox) }).toEqual({
      code: 0,
      stdout: 'done\n',
      effect: 'x',
    })
    expect(at.double.faultsLeft).toEqual([])
  })

  it('runs once and reports its exit if two questions for its outcome lose their answers too', async () => {
    const sandbox = await open(MARK)
    at.double.fault(
      invoke('cut-after'),
      invoke('http', { error: 'InternalServerException' }),
      invoke('empty'),
    )
    expect(await run(sandbox, MARK)).toMatchObject({ exit: { exitCode: 0 }, stdout: 'done\n' })
    expect([effect(sandbox), at.double.faultsLeft]).toEqual(['x', []])
  })

  it.each<[string, Fault]>([
    ['ThrottlingException', invoke('http', { error: 'ThrottlingException', times: 9 })],
    ['AccessDeniedException', invoke('http', { error: 'AccessDeniedException' })],
    ['ValidationException', invoke('http', { error: 'ValidationException' })],
    ['ServiceQuotaExceededException', invoke('http', { error: 'ServiceQuotaExceededException' })],
  ])('does not run and reports `not_begun` if the service refuses it: %s', async (name, fault) => {
    const sandbox = await open(MARK)
    at.double.fault({ ...fault, message: 'not authorized on arn:aws:x' })
    await expect(run(sandbox, MARK)).rejects.toMatchObject({
      code: 'sandbox_lost',
      message: `AgentCore: ${name}: not authorized on arn:aws:x`,
      details: { reason: 'not_begun', class: name },
    })
    expect(effect(sandbox)).toBe('')
  })

  it('never runs after it reported `not_begun`, even if its lost calls arrive later', async () => {
    const sandbox = await open(MARK)
    const before = at.double.calls.length
    at.double.fault(invoke('cut-before'), invoke('cut-before', { skip: 1 }))
    await expect(run(sandbox, MARK)).rejects.toMatchObject({ details: { reason: 'not_begun' } })
    const session = at.sessionOf(sandbox)
    const lost = at.double.calls.slice(before).filter((_, number) => number % 2 === 0)
    for (const { text } of lost)
      expect(
        await session.turn(async () => await callTool(session, toolCall(JSON.parse(text)), null)),
      ).toMatchObject({
        isError: false,
      })
    expect([lost.length, effect(sandbox)]).toEqual([2, ''])
  })

  it.each<[string, string, Fault[]]>([
    [
      'not at all',
      'has no session any more',
      [invoke('http', { error: 'ResourceNotFoundException', times: 9 })],
    ],
    ['not at all', 'meets conflicts alone', [invoke('http', { error: 'ConflictException', times: 9 })]],
    ['not at all', 'never gets through', [invoke('cut-before', { times: 9 })]],
    ['not at all', 'gets a result of the service alone', [invoke('result', { result: UNANSWERED.sentence })]],
    [
      'once',
      'gets results of the service alone',
      [
        invoke('result', { result: UNANSWERED.empty, runs: true }),
        invoke('result', { result: UNANSWERED.empty }),
      ],
    ],
    ['once', 'gets no answer ever', [invoke('cut-after', { times: 9 })]],
    ['once', 'gets empty streams alone', [invoke('empty', { times: 9 })]],
    [
      'once',
      'gets one event and refusals',
      [
        invoke('exception', { error: 'validationException', after: 1 }),
        invoke('http', { error: 'AccessDeniedException' }),
      ],
    ],
  ])('runs %s and is lost if it %s', async (times, _what, faults) => {
    const sandbox = await open(MARK)
    at.double.fault(...faults)
    await expect(run(sandbox, MARK)).rejects.toMatchObject({ code: 'sandbox_lost' })
    expect(effect(sandbox)).toBe(times === 'once' ? 'x' : '')
  })

  it('is lost at once if it kills its own cell, which then leaves no outcome', async () => {
    const program: Program = { type: 'script', language: 'bash', source: 'kill -TERM "$PPID"; sleep 600' }
    const sandbox = await open(program)
    const lost = { code: 'sandbox_lost', details: { reason: 'no_answer', exit_code: 143 } }
    await expect(run(sandbox, program)).rejects.toMatchObject(lost)
  })

  it.each([
    ['javascript', 'cut-text'],
    ['javascript', 'cut-before'],
    ['javascript', 'cut-after'],
    ['bash', 'cut-after'],
    ['bash', 'empty'],
  ] as const)('runs once as a command too: %s, %s', async (language, kind) => {
    const program: Program = { type: 'script', language, source: SAME_IN[language] }
    const sandbox = await open(program)
    at.double.fault(invoke(kind, { tool: 'executeCommand' }))
    expect(await run(sandbox, program)).toMatchObject({ exit: { exitCode: 0 }, stdout: 'done\n' })
    expect(effect(sandbox)).toBe('x')
  })

  it.each<[string, Fault[]]>([
    ['nothing goes wrong', []],
    ['the answer to its start is lost', [invoke('cut-after', { tool: 'startCommandExecution' })]],
    ['its start never arrives', [invoke('cut-before', { tool: 'startCommandExecution' })]],
    ['a question for it fails', [invoke('http', { tool: 'getTask', error: 'InternalServerException' })]],
  ])('runs once in the background, above the bound of a call, when %s', async (_what, faults) => {
    const sandbox = await open(MARK, {}, backend({ call_max_ms: 1000 }))
    at.double.fault(...faults)
    expect(await run(sandbox, MARK)).toMatchObject({ exit: { exitCode: 0 }, stdout: 'done\n' })
    expect(effect(sandbox)).toBe('x')
    expect(at.double.calls.some(({ tool }) => tool === 'startCommandExecution')).toBe(true)
  })
})
