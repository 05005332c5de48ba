// Holds a call by the OpenAI Agents SDK: takes the address of the provider and the number of turns, of which each has a tool.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';

const [base, turns] = process.argv.slice(-2);
let asked = 0;
const find = tool({
  name: 'book__find',
  description: 'Finds a table.',
  parameters: { type: 'object', properties: {}, required: [], additionalProperties: false },
  strict: true,
  execute: async () => {
    asked += 1;
    return 'at eight';
  },
});
const agent = new RealtimeAgent({ name: 'desk', instructions: 'You are the desk.', tools: [find] });
const url = `${base.replace('http', 'ws')}/realtime?model=gpt-realtime-2.1`;
const transport = new OpenAIRealtimeWebSocket({ url, useInsecureApiKey: true });
const session = new RealtimeSession(agent, { transport, model: 'gpt-realtime-2.1', config: { outputModalities: ['text'] } });
session.on('error', (error) => { throw error.error ?? error; });
const said = [];
await session.connect({ apiKey: 'none' });
for (let turn = 0; turn < Number(turns); turn += 1) {
  const done = new Promise((resolve) => {
    let text = false;
    const take = (event) => {
      if (event.type === 'response.output_text.done') {
        said.push(event.text);
        text = true;
      }
      if (event.type === 'response.done' && text) {
        transport.off('*', take);
        resolve();
      }
    };
    transport.on('*', take);
  });
  session.sendMessage('A table?');
  await done;
}
session.close();
assert.equal(asked, Number(turns));
assert.deepEqual(said, Array(Number(turns)).fill('There is one at eight.'));
console.log(JSON.parse(readFileSync('node_modules/@openai/agents-realtime/package.json', 'utf8')).version);
