/** An operator's settings of egress: bounds, private addresses that may be reached, and package mirrors. */
import ipaddr from 'ipaddr.js'
import { z } from 'zod'

/** `CIDR` or `CIDR:port`. An IPv6 range with a port has brackets: `[fd00::/8]:443`. */
export interface PrivateRange {
  range: [ipaddr.IPv4 | ipaddr.IPv6, number]
  /** Null: every port that the network rules allow. */
  port: number | null
}

/** Reads one entry of `private_allow`. Null when it is invalid. */
export function parsePrivateRange(text: string): PrivateRange | null {
  const match = /^\[([^\]]+)\](?::(\d{1,5}))?$/.exec(text) ??
    /^(\d[\d./]*)(?::(\d{1,5}))?$/.exec(text) ?? [text, text]
  const [, cidr = '', port] = match
  if (!ipaddr.isValidCIDR(cidr) || (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)))
    return null
  return { range: ipaddr.parseCIDR(cidr), port: port === undefined ? null : Number(port) }
}

const ms = z.int().min(10).max(3_600_000)
const port = z.int().min(1).max(65_535)
/** May have `user:password@`, which is sent only to the mirror and shown nowhere. */
const mirror = z
  .url({ protocol: /^https?$/ })
  .max(2048)
  .nullable()
  .default(null)

export const egressConfigSchema = z.strictObject({
  max_connections: z
    .int()
    .min(1)
    .max(4096)
    .default(64)
    .describe(
      'Most connections of one execution to the proxy at once, and most from the proxy to origins for it. ' +
        'Browsers open 6 to each host, npm 15 in all.',
    ),
  max_bytes: z
    .int()
    .min(1)
    .max(2 ** 40)
    .default(512 * 2 ** 20)
    .describe('Bytes of one execution, both directions together, package files included.'),
  max_names: z
    .int()
    .min(1)
    .max(65_536)
    .default(256)
    .describe(
      'Most distinct names that one execution may resolve, because each lookup can carry data out. The ' +
        'execution may reach as many host:port pairs, or 256 if that is more. The audit row lists each ' +
        'pair.',
    ),
  connect_timeout_ms: ms.default(10_000).describe('Name resolution and connecting together.'),
  idle_timeout_ms: ms.default(60_000).describe('A connection on which nothing moves for so long ends.'),
  header_timeout_ms: ms
    .default(15_000)
    .describe(
      'Time for the complete head of a request, from the opening of its connection or the end of the ' +
        'answer before it.',
    ),
  ports: z
    .array(port)
    .min(1)
    .max(256)
    .default([80, 443])
    .describe('Ports under network `public`. An entry of an allow-list names its own, or means 80 and 443.'),
  private_allow: z
    .array(
      z
        .string()
        .max(64)
        .refine((text) => parsePrivateRange(text) !== null, 'expected CIDR, CIDR:port or [CIDR]:port'),
    )
    .max(256)
    .default([])
    .describe(
      '`CIDR` or `CIDR:port` that may be reached although it is not public. Never filled from a ' +
        'tenant’s data.',
    ),
  package_mirrors: z
    .strictObject({
      pypi: mirror.describe(
        'Index URL as pip would take it, e.g. `https://mirror.example/simple/`. Null: nothing ' +
          'is installed from PyPI. Exactly this mirror is asked.',
      ),
      npm: mirror.describe(
        'Registry URL as npm would take it. Null: nothing is installed from npm. Exactly this ' +
          'mirror is asked.',
      ),
    })
    .prefault({})
    .describe('Where packages come from.'),
  package_file_hosts: z
    .array(z.string().min(1).max(253))
    .max(64)
    .default(['files.pythonhosted.org'])
    .describe(
      'Hosts besides the mirror’s own that its index may name for files; reached by https only, ' +
        'without its credentials.',
    ),
})
export type EgressConfig = z.output<typeof egressConfigSchema>
