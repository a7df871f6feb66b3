/**
 * Label selectors of lists and watches (Kubernetes' documentation, "Labels and Selectors";
 * k8s.io/apimachinery, pkg/labels): `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, `a>1`,
 * `a<1`; a comma means "and".
 */
import { faultOfKey, faultOfValue } from './labels.ts'

/** A selector that the API server would refuse. */
export class BadSelector extends Error {}

export type Labels = Readonly<Record<string, string>>
type Term = (labels: Labels) => boolean

/** An operator, or a run of other characters without blanks. */
const TOKEN = /==|!=|[=!(),<>]|[^\s=!(),<>]+/g
const SYMBOL = /^(==|!=|[=!(),<>])$/

/** Parses a selector; an empty one selects everything. Throws BadSelector. */
export function labelSelector(text: string): Term {
  const tokens = text.match(TOKEN) ?? []
  if (tokens.length === 0) return () => true
  const terms: Term[] = []
  const reader = { tokens, at: 0 }
  for (;;) {
    terms.push(requirement(reader))
    const token = next(reader)
    if (token === undefined) return (labels) => terms.every((term) => term(labels))
    if (token !== ',')
      throw new BadSelector(`unable to parse requirement: found '${token}', expected: ',' or 'end of string'`)
  }
}

interface Reader {
  tokens: readonly string[]
  at: number
}

const next = (reader: Reader): string | undefined => reader.tokens[reader.at++]
const peek = (reader: Reader): string | undefined => reader.tokens[reader.at]

function requirement(reader: Reader): Term {
  const isAbsence = peek(reader) === '!'
  if (isAbsence) next(reader)
  const key = keyOf(reader)
  if (isAbsence) return (labels) => labels[key] === undefined
  const operator = peek(reader)
  if (operator === undefined || operator === ',') return (labels) => labels[key] !== undefined
  next(reader)
  switch (operator) {
    case '=':
    case '==': {
      const value = valueOf(reader)
      return (labels) => labels[key] === value
    }
    case '!=': {
      const value = valueOf(reader)
      return (labels) => labels[key] !== value
    }
    case 'in': {
      const values = valuesOf(reader)
      return (labels) => labels[key] !== undefined && values.includes(labels[key])
    }
    case 'notin': {
      const values = valuesOf(reader)
      return (labels) => labels[key] === undefined || !values.includes(labels[key])
    }
    case '<':
    case '>': {
      const bound = numberOf(reader)
      return (labels) => {
        const number = integerIn(labels[key] ?? '')
        return number !== null && (operator === '<' ? number < bound : number > bound)
      }
    }
    default:
      throw new BadSelector(
        `unable to parse requirement: found '${operator}', expected: in, notin, =, ==, !=, <, >`,
      )
  }
}

function keyOf(reader: Reader): string {
  const key = next(reader)
  if (key === undefined || SYMBOL.test(key))
    throw new BadSelector(`unable to parse requirement: found '${key ?? ''}', expected: identifier`)
  const why = faultOfKey(key)
  if (why !== null)
    throw new BadSelector(`unable to parse requirement: key: Invalid value: ${JSON.stringify(key)}: ${why}`)
  return key
}

/** The value after an operator; empty if it is missing. */
function valueOf(reader: Reader): string {
  const token = peek(reader)
  if (token === undefined || token === ',') return ''
  next(reader)
  if (SYMBOL.test(token))
    throw new BadSelector(`unable to parse requirement: found '${token}', expected: identifier`)
  return checked(token)
}

function valuesOf(reader: Reader): string[] {
  const open = next(reader)
  if (open !== '(') throw new BadSelector(`unable to parse requirement: found '${open ?? ''}', expected: '('`)
  const values: string[] = []
  let isEmpty = true
  let last = ''
  for (;;) {
    const token = next(reader)
    if (token === ')') break
    isEmpty = false
    if (token === ',') {
      values.push(last)
      last = ''
    } else if (token === undefined || SYMBOL.test(token) || last !== '')
      throw new BadSelector(`unable to parse requirement: found '${token ?? ''}', expected: ',' or ')'`)
    else last = checked(token)
  }
  if (isEmpty)
    throw new BadSelector(
      "unable to parse requirement: for 'in', 'notin' operators, values set can't be empty",
    )
  return [...values, last]
}

function numberOf(reader: Reader): number {
  const number = integerIn(next(reader) ?? '')
  if (number === null)
    throw new BadSelector(
      "unable to parse requirement: for 'Gt', 'Lt' operators, the value must be an integer",
    )
  return number
}

const integerIn = (text: string): number | null => (/^[-+]?\d+$/.test(text) ? Number(text) : null)

function checked(value: string): string {
  const why = faultOfValue(value)
  if (why === null) return value
  throw new BadSelector(
    `unable to parse requirement: values: Invalid value: ${JSON.stringify(value)}: ${why}`,
  )
}
