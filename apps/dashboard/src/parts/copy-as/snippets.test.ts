import { describe, expect, it } from 'vitest'
import { SNIPPETS, type Asked } from './snippets.ts'

const ORIGIN = 'http://127.0.0.1:7070'
const ID = 'exe_0123456789abcdef0123456789abcdef'
const RUN: Asked = {
  run: {
    tenant_id: 'acme',
    agent_id: 'playground',
    program: { type: 'script', language: 'python', source: 'print("it\'s")\nprint(2 != 3)', argv: ['-v'] },
    limits: { memory_mib: 512 },
  },
}
const codeFor = (asked: Asked): Record<string, string> =>
  Object.fromEntries(SNIPPETS.map(({ name, of }) => [name, of(ORIGIN, asked)]))

describe('code that is copied', () => {
  it('runs the program and shows the result', () => {
    expect(codeFor(RUN)).toEqual({
      curl: String.raw`curl -sS -H "Authorization: Bearer $COFFERDAM_API_KEY" -H 'Content-Type: application/json' \
  --data-binary @- 'http://127.0.0.1:7070/v1/executions?wait=30s' <<'JSON'
{
  "tenant_id": "acme",
  "agent_id": "playground",
  "program": {
    "type": "script",
    "language": "python",
    "source": "print(\"it's\")\nprint(2 \u0021= 3)",
    "argv": [
      "-v"
    ]
  },
  "limits": {
    "memory_mib": 512
  }
}
JSON`,
      TypeScript: String.raw`import { createClient } from '@cofferdam/client'

const client = createClient({ baseUrl: "http://127.0.0.1:7070", apiKey: process.env.COFFERDAM_API_KEY ?? '' })
const result = await client.run({
  tenant_id: "acme",
  agent_id: "playground",
  program: {
    type: "script",
    language: "python",
    source: [
      "print(\"it's\")\n",
      "print(2 != 3)",
    ].join(''),
    argv: [
      "-v",
    ],
  },
  limits: {
    memory_mib: 512,
  },
})
console.log(result)
await client.close()
`,
      Python: String.raw`import os

from cofferdam import Client

with Client("http://127.0.0.1:7070", api_key=os.environ["COFFERDAM_API_KEY"]) as client:
    result = client.run({
        "tenant_id": "acme",
        "agent_id": "playground",
        "program": {
            "type": "script",
            "language": "python",
            "source": (
                "print(\"it's\")\n"
                "print(2 != 3)"
            ),
            "argv": [
                "-v",
            ],
        },
        "limits": {
            "memory_mib": 512,
        },
    })
    print(result)
`,
    })
  })

  it('reads an execution', () => {
    const code = codeFor({ read: ID })
    expect(code['curl']).toBe(
      `curl -sS -H "Authorization: Bearer $COFFERDAM_API_KEY" '${ORIGIN}/v1/executions/${ID}'`,
    )
    expect(code['TypeScript']).toContain(`const result = await client.get("${ID}")\nconsole.log(result)\n`)
    expect(code['Python']).toContain(`    result = client.get("${ID}")\n    print(result)\n`)
  })

  it.each(SNIPPETS)('shows in $name what nobody sees', ({ of }) => {
    const source = 'a\u202Eb\u200Bc\u009Bd\u001Be\u2028f\uFEFF'
    const program = { type: 'script', language: 'bash', source } as const
    const code = of(ORIGIN, { run: { tenant_id: 'acme', agent_id: 'a', program } })
    expect(code).toContain(String.raw`"a\u202eb\u200bc\u009bd\u001be\u2028f\ufeff"`)
  })
})
