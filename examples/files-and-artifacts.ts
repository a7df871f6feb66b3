/**
 * Gives a program input files, and collects the files that it creates.
 *
 * Output:
 *   ok 3 rows
 *   out/report.json 26 bytes
 */
import { connect } from './connect.ts'

await using client = connect()
const result = await client.run({
  tenant_id: 'demo',
  agent_id: 'examples',
  files: [{ path: 'sales.csv', content: 'region,amount\nnorth,10\nsouth,20\nnorth,5\n' }],
  artifacts: ['out/*.json'],
  program: {
    type: 'script',
    language: 'python',
    source: `
import collections, csv, json, os
rows = list(csv.DictReader(open("sales.csv")))
total = collections.Counter()
for row in rows:
    total[row["region"]] += int(row["amount"])
os.makedirs("out")
json.dump(total, open("out/report.json", "w"))
print(len(rows), "rows")
`,
  },
})
console.log(result.ending, result.stdout.trim())
for (const { path, size } of result.artifacts) console.log(path, size, 'bytes')
