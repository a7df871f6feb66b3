/**
 * Finds every command that a shell text would run: in pipes, lists, substitutions, double quotes,
 * here-documents, arithmetic, functions and compound commands, and behind programs that run others. What the
 * text does not tell is reported as unclear.
 */
import { forEachChild, parse, type Command, type Script, type SyntaxNode } from 'unbash'
import { commandsRunBy } from './commands-run-by.ts'
import { argumentOf, constantInput, constantOf, type Argument } from './constant-word.ts'
import { hidesSubstitution, mayEvaluate } from './late-evaluation.ts'
import { RUNNING_VARIABLES } from './running-programs.ts'

/** A command by its constant words, or a part of the text that does not tell what it runs. */
export type Found =
  | { argv: readonly Argument[]; /** May be a builtin or function. */ byShell: boolean; ownFunction: boolean }
  | { unclear: string; why: string }

/** Levels of texts inside texts (`sh -c "sh -c …"`). People nest less, and each level doubles the quotes. */
const MAX_TEXTS_DEEP = 8
/** A text of 1 MiB can have half a million commands (`a;`). No real command line is that long. */
const MAX_COMMANDS = 20_000

interface Reading {
  found: Found[]
  unsets: boolean
  evaluates: boolean
  hides: boolean
}

/** The commands of a shell text, in order. Throws RangeError for nesting beyond the stack. */
export function commandsOfText(text: string): Found[] {
  return reading((state) => readText(text, state, 0))
}

/** The commands of a program that is started without a shell. */
export function commandsOfArgv(argv: readonly string[]): Found[] {
  return reading((state) => addCommand({ argv, byShell: false, ownFunction: false }, undefined, state, 0))
}

function reading(read: (state: Reading) => void): Found[] {
  const state: Reading = { found: [], unsets: false, evaluates: false, hides: false }
  read(state)
  if (state.evaluates && state.hides)
    state.found.push({ unclear: '$(', why: 'a quoted substitution may be evaluated as arithmetic' })
  // If the text unsets anything, the name of each function may mean the program again.
  return state.found.map((found) =>
    'argv' in found && state.unsets ? { ...found, ownFunction: false } : found,
  )
}

function readText(text: string, state: Reading, depth: number): void {
  if (depth > MAX_TEXTS_DEEP) return addUnclear(state, text, 'texts are nested too deeply')
  if (text.includes('\0')) return addUnclear(state, text, 'it holds a NUL byte')
  const script = parse(text)
  visit(script, ownFunctions(script), state, depth)
}

/**
 * Functions that are defined at the top level without a condition, with the position where each definition
 * ends. A later call means the function. An earlier call, or one in another text, may mean the program of
 * that name.
 */
function ownFunctions(script: Script): ReadonlyMap<string, number> {
  const functions = new Map<string, number>()
  for (const { command, background } of script.commands)
    if (command.type === 'Function' && background !== true && !functions.has(command.name.value))
      functions.set(command.name.value, command.end)
  return functions
}

function visit(
  node: SyntaxNode,
  functions: ReadonlyMap<string, number>,
  state: Reading,
  depth: number,
): void {
  if (state.found.length > MAX_COMMANDS) return
  let known = functions
  switch (node.type) {
    case 'Script':
      if ('errors' in node && node.errors !== undefined && node.errors.length > 0)
        addUnclear(state, node.errors[0]?.message ?? '', 'the text cannot be parsed')
      // Inside backticks, positions refer to the decoded text, so they cannot be compared with those of
      // functions.
      if (node.source !== undefined) known = new Map()
      break
    case 'CommandExpansion':
    case 'ProcessSubstitution':
    case 'ArithmeticCommandExpansion':
      if (node.script === undefined) addUnclear(state, node.text, 'the substitution cannot be parsed')
      break
    case 'ArithmeticExpansion':
      if (node.expression === undefined && /[`$<]/.test(node.text.slice(1)))
        addUnclear(state, node.text, 'the arithmetic cannot be parsed')
      break
    case 'ArithmeticCommand':
      if (node.expression === undefined && /[`$<]/.test(node.body))
        addUnclear(state, node.body, 'the arithmetic cannot be parsed')
      break
    case 'Unknown':
      addUnclear(state, node.operator, 'the expansion cannot be parsed')
      break
    case 'Assignment':
      if (RUNNING_VARIABLES.has(node.name)) addUnclear(state, node.name, 'this variable runs code')
      break
    case 'Command':
      readCommand(node, known, state, depth)
      break
    default:
      break
  }
  if (mayEvaluate(node)) state.evaluates = true
  if (hidesSubstitution(node)) state.hides = true
  forEachChild(node, (child) => visit(child, known, state, depth))
}

function readCommand(
  command: Command,
  functions: ReadonlyMap<string, number>,
  state: Reading,
  depth: number,
): void {
  if (command.name === undefined) return
  const name = constantOf(command.name)
  if (name === null) return addUnclear(state, command.name.text, 'its name is not constant')
  const definedAt = functions.get(name)
  const ownFunction = definedAt !== undefined && command.pos >= definedAt
  const argv = [name, ...command.args.map(argumentOf)]
  addCommand({ argv, byShell: true, ownFunction }, constantInput(command.redirects), state, depth)
}

function addCommand(
  command: Extract<Found, { argv: unknown }>,
  input: Argument | undefined,
  state: Reading,
  depth: number,
): void {
  const name = command.argv[0]
  if (typeof name !== 'string') return addUnclear(state, '', 'the name of a command is not constant')
  state.found.push(command)
  if (state.found.length > MAX_COMMANDS) {
    state.found.push({ unclear: name, why: `there are more than ${MAX_COMMANDS} commands` })
    return
  }
  if (name === 'unset') state.unsets = true
  for (const run of commandsRunBy(command.argv, input)) {
    if ('unclear' in run) addUnclear(state, name, run.unclear)
    else if ('text' in run) readText(run.text, state, depth + 1)
    else if (depth > MAX_TEXTS_DEEP) addUnclear(state, name, 'commands are nested too deeply')
    else addCommand({ argv: run.argv, byShell: run.byShell, ownFunction: false }, input, state, depth + 1)
  }
}

function addUnclear(state: Reading, what: string, why: string): void {
  state.found.push({ unclear: what, why })
}
