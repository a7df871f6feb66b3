/** Translates a program into the cell's form. */
import { CofferdamError, type Program } from '@cofferdam/contract'

/** A longer shell text goes into a file: Linux takes at most 128 KiB per argument (MAX_ARG_STRLEN). */
const SHELL_ARG_MAX = 120 * 1024
const ENTRIES = { python: 'main.py', javascript: 'main.js', typescript: 'main.ts', bash: 'main.sh' } as const

/** `provided`: paths of its files. Throws `capability_missing` except for scripts and commands. */
export function describeProgram(program: Program, provided: readonly string[]): object {
  switch (program.type) {
    case 'script': {
      const { language, source, argv = [] } = program
      return { type: 'script', language, source, argv, entry: freeName(ENTRIES[language], provided) }
    }
    case 'command': {
      const { argv, shell = '' } = program
      if (argv !== undefined) return { type: 'command', argv }
      if (Buffer.byteLength(shell) <= SHELL_ARG_MAX) return { type: 'command', argv: ['bash', '-c', shell] }
      const entry = freeName('command.sh', provided)
      return { type: 'script', language: 'bash', source: shell, argv: [], entry }
    }
    case 'files':
    case 'tests':
    case 'install':
      throw new CofferdamError(
        'capability_missing',
        `agentcore does not run ${program.type} programs by itself`,
      )
  }
}

function freeName(name: string, provided: readonly string[]): string {
  const taken = new Set(provided.map((path) => path.split('/')[0]))
  const [stem, ending] = name.split('.')
  for (let n = 0; ; n += 1) {
    const free = n === 0 ? name : `${stem}_${n}.${ending}`
    if (!taken.has(free)) return free
  }
}
