"""A fitted evaluator as a reward: as TRL calls it, and to pick the best of several replies.

Run: python examples/reward_for_training.py

With TRL: GRPOTrainer(model=..., reward_funcs=reward, train_dataset=...), whose data set has a column `documents`.
"""

from accord import Project, Reward
from accord.project import Config
from accord.sample import sources

with Project(Config(store="sqlite:///:memory:", metrics=["bank"], evaluator="mixture", draws=200)) as project:
    project.import_(sources())
    reward = Reward(project.fit_offline().evaluator)

prompt = [{"role": "user", "content": "Can I return a router that I have opened?"}]
policy = ["Opened devices can go back within 45 days of delivery. Send them with the label that is in your account."]
replies = [
    "I cannot say.",
    "Yes: opened devices can go back within 45 days of delivery, with the label from your account.",
    "Routers are devices that route. Is there anything else, anything else, anything else?",
]
rewards = reward(
    prompts=[prompt] * len(replies),
    completions=[[{"role": "assistant", "content": reply}] for reply in replies],
    documents=[policy] * len(replies),
)
for value, reply in sorted(zip(rewards, replies, strict=True), reverse=True):
    print(f"{value:.3f}  {reply}")
