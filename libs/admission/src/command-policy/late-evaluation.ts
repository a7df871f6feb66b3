/**
 * Bash evaluates subscripts inside the *values* that arithmetic and some builtins work on: `x='a[$(rm)]';
 * ((x))` runs rm, although the parser sees the substitution as a quoted constant. Either half alone is
 * common. Only a text that has both is refused.
 */
import type { SyntaxNode } from 'unbash'
import { argumentOf } from './constant-word.ts'

/** Builtins that declare. Their arguments may be names with a subscript. */
const DECLARING = new Set(['declare', 'typeset', 'local', 'export', 'readonly', 'unset'])
/** Builtins that take the name of a variable with a subscript. */
const NAMING = new Set(['read', 'printf', 'test', '[', 'getopts', 'wait', 'mapfile', 'readarray'])

/** True where a value may be evaluated as arithmetic, as a name with a subscript, or as a prompt. */
export function mayEvaluate(node: SyntaxNode): boolean {
  switch (node.type) {
    case 'ArithmeticWord':
      return /[A-Za-z_]/.test(node.value)
    case 'TestUnary':
      return node.operator === '-v' || node.operator === '-R'
    case 'TestBinary':
      return /^-(eq|ne|lt|le|gt|ge)$/.test(node.operator)
    case 'ParameterExpansion':
      return node.prefix === '!' || node.index !== undefined
    case 'Slice':
    case 'Transform':
      return true
    case 'Assignment':
      return node.index !== undefined
    case 'Command': {
      const name = node.name?.value ?? ''
      if (name === 'let') return true
      const words = node.args.map(argumentOf)
      if (DECLARING.has(name)) return words.some((word) => word === null || /\[.|^-[a-zA-Z]*[in]/.test(word))
      return NAMING.has(name) && words.some((word) => word !== null && /^[A-Za-z_]\w*\[|^-[vR]$/.test(word))
    }
    default:
      return false
  }
}

/** True for a constant that looks like a substitution. */
export function hidesSubstitution(node: SyntaxNode): boolean {
  switch (node.type) {
    case 'SingleQuoted':
    case 'AnsiCQuoted':
    case 'Literal':
    case 'Word':
      return /\$\(|`|[<>]\(|\$\{/.test(node.value) && (node.type !== 'Word' || node.parts === undefined)
    case 'HereDocBody':
      return node.parts === undefined && /\$\(|`/.test(node.text)
    default:
      return false
  }
}
