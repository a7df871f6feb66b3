/** Finds the keys that a schema knows at a path, to suggest one for a mistyped key. */
import { z } from 'zod'

/** The parts of a JSON schema that lead to inner schemas. */
interface Node {
  properties?: Record<string, Node>
  additionalProperties?: Node | boolean
  items?: Node
  anyOf?: Node[]
  oneOf?: Node[]
}

/** Empty if no object is expected at `path`, or one with any keys. */
export function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const root = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Node
  const found = path.reduce<Node[]>(
    (nodes, part) => nodes.flatMap((node) => choicesOf(inner(node, String(part)))),
    choicesOf(root),
  )
  return found.flatMap(({ properties = {} }) => Object.keys(properties))
}

function inner({ properties, items, additionalProperties }: Node, part: string): Node {
  const other = typeof additionalProperties === 'object' ? additionalProperties : {}
  return properties?.[part] ?? items ?? other
}

const choicesOf = (node: Node): Node[] => [node, ...(node.anyOf ?? []), ...(node.oneOf ?? [])]
