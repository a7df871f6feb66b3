/** Commands that each have a shell of their own, run by a real bash one after the other in one folder. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SURROUNDINGS, type ExecutionResult } from '@cofferdam/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { restoredBash } from './restored-bash.ts'
import type { ToolAnswer } from './tool.ts'

const ROOTS = { workdir: SURROUNDINGS.workFolder, allowed: [], readOnly: [] }
let folder = ''
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'cofferdam-restored-')))
  mkdirSync(join(folder, '.session'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function call(input: unknown): ToolAnswer {
  const plan = restoredBash.plan(input, ROOTS)
  if (plan.program.type !== 'command') throw new Error('expected a command')
  const [command = '', ...args] = plan.program.argv ?? []
  const ran = spawnSync(command, args, { cwd: folder, input: plan.stdin ?? '', encoding: 'utf8' })
  return plan.answer({
    ending: ran.status === 0 ? 'ok' : 'error',
    stdout: ran.stdout,
    stderr: ran.stderr,
    stderr_bytes: ran.stderr.length,
    stderr_truncated: false,
  } as ExecutionResult)
}
const run = (command: string): ToolAnswer => call({ command })
const said = (text: string): ToolAnswer => ({ text, isError: false })

describe('a shell that continues from the last one', () => {
  it('has its folder, variables, arrays, functions, aliases and options', () => {
    expect(run(`mkdir -p a/'b c' && cd a/'b c' && export X='1 2' Y=$'two\\nlines'; z=(p 'q r')`)).toEqual(
      said(''),
    )
    run(`greet() { echo "hi $1"; }; shopt -s expand_aliases; alias ll='echo listed'; set -f; declare -i n=4`)
    expect(run('echo "${PWD##*/}|$X|$Y|${z[1]}|$(env | grep ^X=)|$-|$((n + 1))"')).toEqual(
      said(
        expect.stringMatching(
          /^b c\|1 2\|two\nlines\|q r\|X=1 2\|[a-zA-Z]*f[a-zA-Z]*\|5$/,
        ) as unknown as string,
      ),
    )
    expect(run('greet you')).toEqual(said('hi you'))
    expect(run('ll')).toEqual(said('listed'))
  })

  it('takes output of both streams in order, the status, and no input', () => {
    expect(run('echo a; echo b >&2; echo c; cat; (exit 3)')).toEqual({ text: 'a\nb\nc', isError: true })
    expect(run('false')).toEqual({ text: 'exit 1', isError: true })
  })

  it('survives a mistake in the syntax, a comment at the end and a here document', () => {
    run('x=kept')
    expect(run('echo "open').isError).toBe(true)
    expect(run('cat <<EOF # said\n$x\nEOF')).toEqual(said('kept'))
    expect(run('echo $x # nothing')).toEqual(said('kept'))
  })

  it('ends with exit, and the next one knows nothing', () => {
    run('x=1; cd /')
    expect(run('exit 4')).toEqual({ text: 'bash: bash session terminated', isError: true })
    expect(run('echo "${x-gone} $PWD"')).toEqual(said(`gone ${folder}`))
  })

  it('begins anew when it is restarted, with and without a command', () => {
    run('x=1')
    expect(call({ restart: true })).toEqual(said('bash session restarted'))
    expect(run('echo ${x-gone}')).toEqual(said('gone'))
    run('x=2')
    expect(call({ restart: true, command: 'echo ${x-gone}' })).toEqual(said('gone'))
  })

  it('keeps working when the agent made a variable read-only, changed PATH or set noclobber', () => {
    run('readonly R=1; set -C; PATH=/nowhere; y=2')
    expect(run('builtin echo "$y"')).toEqual(said('2'))
  })

  it('leaves nothing of its own in the folder', () => {
    run('touch mine')
    expect(readdirSync(folder).toSorted()).toEqual(['.session', 'mine'])
    expect(readdirSync(join(folder, '.session'))).toEqual(['shell'])
    expect(
      execFileSync('bash', ['-c', `source .session/shell; env`], { cwd: folder, encoding: 'utf8' }),
    ).not.toContain('__cofferdam')
  })
})
