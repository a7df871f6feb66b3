/** Runs the same calls with the SDK's toolset and with ours, over two folders with the same contents. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, lstatSync, rmSync } from 'node:fs'
import { symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { betaAgentToolset20260401 } from '@anthropic-ai/sdk/tools/agent-toolset/node'
import { ToolInputError, type ToolAnswer, type ToolName, type ToolRoots } from '../src/tools/tool.ts'
import { TOOLSET } from '../src/tools/toolset.ts'
import { Session } from './run-plan.ts'

/** A tool and its input. `<base>` in a text is the folder above `work`, `memory`, `shared` and `outside`. */
export type Call = readonly [tool: ToolName, input: Record<string, unknown>]

/**
 * Contents by path below the base: a text, bytes, or a link to `to`. Each file is one second older than the
 * file before it.
 */
export type Files = Record<string, string | Uint8Array | { to: string }>

export interface Answered {
  answers: ToolAnswer[]
  /** Path → mode and contents of everything below the base. */
  tree: Record<string, string>
}

interface Side {
  base: string
  run(call: Call): Promise<ToolAnswer>
  close(): Promise<void>
}

/** Returns the answers and the folder of each side. In both, `<base>` replaces the path of the base. */
export async function compareToolsets(
  calls: readonly Call[],
  files: Files = {},
): Promise<{ sdk: Answered; ours: Answered }> {
  const top = mkdtempSync(join(tmpdir(), 'toolset-'))
  try {
    const sdk = await answersOf(sdkSide(join(top, 'base-1')), calls, files)
    const ours = await answersOf(ourSide(join(top, 'base-2')), calls, files)
    return { sdk, ours }
  } finally {
    rmSync(top, { recursive: true, force: true })
  }
}

export const rootsBelow = (base: string): ToolRoots => ({
  workdir: join(base, 'work'),
  allowed: [join(base, 'memory'), join(base, 'shared')],
  readOnly: [join(base, 'shared')],
})

function sdkSide(base: string): Side {
  const { workdir, allowed, readOnly } = rootsBelow(base)
  const tools = betaAgentToolset20260401({
    workdir,
    allowedRoots: [...allowed],
    readOnlyRoots: [...readOnly],
  })
  return {
    base,
    async run([name, input]) {
      const tool = tools.find((one) => one.name === name)
      try {
        return { text: (await tool?.run(input as never)) as string, isError: false }
      } catch (error) {
        return { text: error instanceof Error ? error.message : String(error), isError: true }
      }
    },
    async close() {
      for (const tool of tools) await tool.close?.()
    },
  }
}

function ourSide(base: string): Side {
  const roots = rootsBelow(base)
  const session = new Session(roots.workdir, `${base}-agent`)
  return {
    base,
    async run([name, input]) {
      try {
        return await session.answer(TOOLSET[name].plan(input, roots))
      } catch (error) {
        if (!(error instanceof ToolInputError)) throw error
        return { text: error.message, isError: true }
      }
    },
    close: () => session[Symbol.asyncDispose](),
  }
}

async function answersOf(side: Side, calls: readonly Call[], files: Files): Promise<Answered> {
  fill(side.base, files)
  try {
    const answers: ToolAnswer[] = []
    for (const [tool, input] of calls) {
      const { text, isError } = await side.run([tool, withBase(input, side.base)])
      answers.push({ text: text.replaceAll(side.base, '<base>'), isError })
    }
    return { answers, tree: treeOf(side.base) }
  } finally {
    await side.close()
  }
}

const withBase = (input: Record<string, unknown>, base: string): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(input).map(([key, value]) => [
      key,
      typeof value === 'string' ? value.replaceAll('<base>', base) : value,
    ]),
  )

function fill(base: string, files: Files): void {
  for (const name of ['work', 'memory', 'shared', 'outside']) mkdirSync(join(base, name), { recursive: true })
  for (const [at, [path, content]] of Object.entries(files).entries()) {
    const full = join(base, path)
    mkdirSync(dirname(full), { recursive: true })
    if (typeof content === 'object' && 'to' in content)
      symlinkSync(content.to.replaceAll('<base>', base), full)
    else {
      writeFileSync(full, content, { mode: 0o644 })
      utimesSync(full, 1_700_000_000 - at, 1_700_000_000 - at)
    }
  }
}

function treeOf(base: string): Record<string, string> {
  const tree: Record<string, string> = {}
  for (const path of readdirSync(base, { recursive: true, encoding: 'utf8' })) {
    const full = join(base, path)
    const seen = lstatSync(full)
    const mode = (seen.mode & 0o777).toString(8)
    if (seen.isFile()) tree[path] = `${mode} ${readFileSync(full, 'latin1').replaceAll(base, '<base>')}`
    else tree[path] = seen.isSymbolicLink() ? `link ${readlinkSync(full).replaceAll(base, '<base>')}` : mode
  }
  return tree
}

/**
 * Removes line numbers from errors of bash: the SDK counts lines over the life of the shell, we from the
 * start of the command.
 */
export const withoutLineNumbers = ({ text, isError }: ToolAnswer): ToolAnswer => ({
  text: text.replace(/^(\/bin\/bash: line )\d+:/gm, '$1N:'),
  isError,
})
