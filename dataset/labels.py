"""Closed label sets of the records (PROTOCOL section 1; coverage bounds of the scenario guide)."""

from __future__ import annotations

from typing import Final

NO_KEY_INFORMATION: Final = "No key information extracted."

MEMORY_CATEGORIES: Final = (
    "Name", "Gender", "Age", "Location", "Birthday", "Zodiac Sign", "Personality", "MBTI",
    "Emotional State", "Occupation", "Sleep Habits", "Health Status", "Mood", "Relationships", "Food",
    "Entertainment", "Travel", "Fandom", "Hobbies", "Love Life", "Studies", "Work",
    "Virtual Interaction", "Other Events",
)  # fmt: skip

INTERACTIONS: Final = (
    "casual", "support", "memory", "planning", "repair", "celebration", "silence", "play", "advice",
    "boundary", "confession", "farewell", "reunion", "conflict", "check_in", "decision", "learning",
    "crisis",
)  # fmt: skip

EMOTIONS: Final = (
    "admiration", "ambivalence", "amusement", "anger", "anxiety", "awe", "betrayal", "boredom", "confusion",
    "contentment", "curiosity", "despair", "determination", "disappointment", "disgust", "embarrassment",
    "envy", "excitement", "exhaustion", "fear", "frustration", "gratitude", "grief", "guilt",
    "helplessness", "homesickness", "hope", "hurt", "insecurity", "jealousy", "joy", "loneliness",
    "longing", "nostalgia", "numbness", "overwhelm", "playfulness", "pride", "regret", "relief",
    "resentment", "restlessness", "sadness", "serenity", "shame", "surprise", "tenderness", "worry",
)  # fmt: skip

TOPICS: Final = (
    "addiction_recovery", "adoption", "aging_parents", "animals", "anniversary", "art", "astronomy",
    "birthday", "body_image", "books", "breakup", "burnout", "caregiving", "chores", "chronic_illness",
    "climate", "colleagues", "coming_out", "commute", "cooking", "craft", "dance", "dating", "debt",
    "dental_visit", "disability", "divorce", "dreams", "driving", "emigration", "exams", "faith",
    "family_dinner", "fashion", "festival", "film", "first_job", "fishing", "food", "friendship",
    "funeral", "gaming", "garden", "grandparents", "hair", "health_scare", "hiking", "home_repair",
    "hospital", "housing", "identity", "infertility", "insomnia", "inheritance", "job_interview",
    "job_loss", "language_learning", "letter", "library", "loneliness_at_night", "long_distance",
    "marriage", "medication", "menopause", "migration_papers", "military", "miscarriage", "money",
    "mountains", "moving_house", "museum", "music", "neighbours", "new_parent", "news_fatigue",
    "night_shift", "online_life", "painting", "parenting", "performance", "pets", "pet_loss",
    "photography", "pilgrimage", "plants", "poetry", "pregnancy", "promotion", "public_speaking",
    "puzzles", "rain", "relapse", "restaurant", "retirement", "running", "school", "sea", "siblings",
    "singing", "small_talk", "social_anxiety", "sport", "startup", "step_family", "stray_animal",
    "study_abroad", "swimming", "tea_and_coffee", "theatre", "therapy", "train_travel", "travel",
    "university", "unpaid_work", "volunteering", "walking", "wedding", "weather", "weekend", "winter",
    "work_conflict", "writing",
)  # fmt: skip

NEEDS: Final = ("explicit", "implicit")
