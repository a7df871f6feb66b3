/**
 * Which files of a workspace go into sandboxes and which come back. Paths are folded and matched part by
 * part, so no spelling of a name bypasses a rule.
 *
 *   too deep ─► never-list (cannot be overridden) ─► first matching rule ─► no rule matches: never
 *                                                     └─ control file, the rule lacks `control`: only in
 */
import {
  BOUNDS,
  CofferdamError,
  patternProblem,
  type SyncDirection,
  type SyncRule,
} from '@cofferdam/contract'
import { foldGlob, foldPart } from './fold-names.ts'
import { CONTROL_NAMES, NEVER_NAMES } from './guarded-names.ts'
import { compileNames, compilePath } from './match-path.ts'
import { isTooDeep } from './path-index.ts'

/** The rules of a request that has none. */
const DEFAULT_RULES: readonly SyncRule[] = [{ pattern: '**', direction: 'both' }]

/** Why a path is not copied. `too_deep`: it lies in more folders than a workspace may have. */
export type RuleRefusal = 'too_deep' | 'never_list' | 'control_file' | 'no_rule' | 'rule'

/** Rules, validated and folded once. */
export interface CompiledRules {
  /** Why the path may not go into a sandbox. Null when it may. */
  refusesIn(path: string): RuleRefusal | null
  /** Why a change or deletion of the path may not come out. Null when it may. */
  refusesOut(path: string): RuleRefusal | null
}

/** True for secrets and machine-specific folders, in any spelling and folder. */
export function isNever(path: string): boolean {
  return hasPart(path, isNeverName)
}

/** True for files that control programs outside of the sandbox. */
export function isControl(path: string): boolean {
  return hasPart(path, isControlName)
}

const isNeverName = compileNames(NEVER_NAMES.map(foldGlob))
const isControlName = compileNames(CONTROL_NAMES.map(foldGlob))

/** Paths with a backslash are refused elsewhere, but also guarded here. */
const hasPart = (path: string, matches: (name: string) => boolean): boolean =>
  path.split(/[/\\]/).some((part) => matches(foldPart(part)))

/** Cached verdicts: enough for all paths of a workspace and a program, so a merge matches no path twice. */
const MAX_JUDGED = 4 * BOUNDS.workspaceFiles

interface Verdict {
  in: RuleRefusal | null
  out: RuleRefusal | null
}

/** Throws `invalid_request` for an invalid pattern. */
export function compileRules(rules: readonly SyncRule[] = DEFAULT_RULES): CompiledRules {
  const compiled = rules.map(({ pattern, direction, control = false }) => ({
    matches: compilePath(patternParts(pattern)),
    direction,
    control,
  }))
  const both = (refusal: RuleRefusal): Verdict => ({ in: refusal, out: refusal })
  const judge = (path: string): Verdict => {
    if (isTooDeep(path)) return both('too_deep')
    if (isNever(path)) return both('never_list')
    const names = path.split('/').map(foldPart)
    const rule = compiled.find(({ matches }) => matches(names))
    if (rule === undefined) return both('no_rule')
    const { direction, control } = rule
    return {
      in: allows(direction, 'in') ? null : 'rule',
      out: !allows(direction, 'out') ? 'rule' : !control && isControl(path) ? 'control_file' : null,
    }
  }
  const judged = new Map<string, Verdict>()
  const verdictOn = (path: string): Verdict => {
    const known = judged.get(path)
    if (known !== undefined) return known
    if (judged.size >= MAX_JUDGED) judged.clear()
    const verdict = judge(path)
    judged.set(path, verdict)
    return verdict
  }
  return {
    refusesIn: (path) => verdictOn(path).in,
    refusesOut: (path) => verdictOn(path).out,
  }
}

const allows = (direction: SyncDirection, way: 'in' | 'out'): boolean =>
  direction === 'both' || direction === way

/** The parts of a pattern: `./a//b/` is `a/b`. Throws `invalid_request` if a rule cannot have it. */
export function patternParts(pattern: string): string[] {
  const problem =
    pattern.length > BOUNDS.pathLength
      ? `expected at most ${BOUNDS.pathLength} characters`
      : patternProblem(pattern)
  if (problem !== null)
    throw new CofferdamError(
      'invalid_request',
      `"${pattern.slice(0, 100)}" is no pattern of a workspace: ${problem}.`,
    )
  const parts = pattern.split('/').filter((part) => part !== '' && part !== '.')
  return parts.map(foldGlob)
}
